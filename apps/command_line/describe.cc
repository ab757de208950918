#include "apps/command_line/describe.h"

#include "job/job.h"

namespace embers {
namespace {

using Json = nlohmann::json;

Json option(const CLI::Option& option) {
  Json json{{"description", option.get_description()}, {"required", option.get_required()}};
  if (option.get_positional()) {
    json["name"] = option.get_name(true);
  } else {
    std::vector<std::string> names;
    for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) names.push_back("-" + name);
    json["name"] = names.front();
    names.erase(names.begin());
    if (!names.empty()) json["aliases"] = names;
  }
  if (!option.get_default_str().empty()) json["default"] = option.get_default_str();
  return json;
}

// The command itself, then those below it. `name` is its full name.
void add(const CLI::App& app, const std::string& name, Json& commands) {
  const std::string before = app.get_parent() == nullptr ? "" : name + ' ';
  Json options = Json::array();
  for (const CLI::Option* o : app.get_options()) options.push_back(option(*o));
  commands.push_back({{"name", name}, {"description", app.get_description()}, {"options", options}});
  if (!app.get_aliases().empty()) commands.back()["aliases"] = app.get_aliases();
  for (const CLI::App* sub : app.get_subcommands({}))
    if (!sub->get_group().empty()) add(*sub, before + sub->get_name(), commands);  // others are hidden
}

}  // namespace

Json describe(const CLI::App& app) {
  Json commands = Json::array();
  add(app, app.get_name(), commands);
  return {{"commands", commands}, {"job", job::known_keys()}};
}

}  // namespace embers
