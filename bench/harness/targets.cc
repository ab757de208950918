#include "bench/harness/targets.h"

#include <fmt/format.h>

namespace embers {

using Json = nlohmann::json;

namespace {

constexpr double kBeaten = 1.03;

Json entry(const std::string& name, const Estimate& value, double wanted, bool holds) {
  Json json{{"name", name}, {"value", value.value}, {"target", wanted}, {"holds", holds}};
  if (value.low < value.high) json["interval"] = {value.low, value.high};
  return json;
}

Json beside(const Estimate& limit, const Estimate& value, Json json) {
  json.update({{"limit", limit.value}, {"of_limit", value.value / limit.value}});
  return json;
}

bool is_beaten(const Estimate& share) { return share.value > kBeaten && share.low > 1; }

}  // namespace

Json target(const std::string& name, const Estimate& value, double wanted) {
  return entry(name, value, wanted, value.value >= wanted);
}

Json target(const std::string& name, const Estimate& value, double wanted, const Estimate& limit) {
  return beside(limit, value, target(name, value, wanted));
}

Json target_at_most(const std::string& name, const Estimate& value, double wanted) {
  Json json = entry(name, value, wanted, value.value <= wanted);
  json["at_most"] = true;
  return json;
}

Json target_at_most(const std::string& name, const Estimate& value, double wanted, const Estimate& limit) {
  return beside(limit, value, target_at_most(name, value, wanted));
}

Json limit(const std::string& name, const Estimate& value) {
  return {{"name", name},
          {"of_limit", value.value},
          {"interval", {value.low, value.high}},
          {"beaten", is_beaten(value)}};
}

std::vector<std::string> beaten_limits(const Json& report) {
  std::vector<std::string> names;
  for (const Json& entry : report.value("limits", Json::array()))
    if (entry["beaten"])
      names.push_back(fmt::format("{} ({:.2f} of its limit)", entry["name"].get<std::string>(),
                                  entry["of_limit"].get<double>()));
  return names;
}

void name_sizes(Json& report, const std::string& sizes) {
  for (const char* const key : {"limits", "targets"})
    if (report.contains(key))
      for (Json& entry : report[key])
        entry["name"] = fmt::format("{}[{}]", entry["name"].get<std::string>(), sizes);
}

std::string table_of_targets(const Json& report) {
  std::string text;
  for (const Json& t : report.value("targets", Json::array())) {
    text += fmt::format("{:<44} {:8.3f}", t["name"].get<std::string>(), t["value"].get<double>());
    text += t.contains("interval") ? fmt::format(" ({:.3f} to {:.3f})", t["interval"][0].get<double>(),
                                                 t["interval"][1].get<double>())
                                   : "";
    text += fmt::format("  at {} {:g}: {}", t.value("at_most", false) ? "most" : "least",
                        t["target"].get<double>(), t["holds"].get<bool>() ? "holds" : "MISSED");
    if (t.contains("limit"))
      text +=
          fmt::format("; limit {:.3f}, {:.2f} of it", t["limit"].get<double>(), t["of_limit"].get<double>());
    text += '\n';
  }
  return text;
}

}  // namespace embers
