#include "job/sections/model_section.h"

#include <fmt/format.h>

#include <regex>

#include "job/document/section.h"

namespace embers::job {
namespace {

// "package.module:Class"; the class may be within another one.
void check_python(const Section& section, const ModelSection& model) {
  static const std::regex form(R"(([A-Za-z_]\w*)(\.[A-Za-z_]\w*)*:([A-Za-z_]\w*)(\.[A-Za-z_]\w*)*)");
  if (!std::regex_match(model.python, form))
    section.fail_at("python", fmt::format("'python' must be \"module:Class\", such as \"my_model:Net\", not "
                                          "\"{}\"",
                                          model.python));
  for (const char* const other : {"name", "library"})
    if (section.has(other))
      section.fail_at(other, fmt::format("'{}' does not go with 'python', which is the model", other));
}

}  // namespace

void read(Section& section, ModelSection& model) {
  section.read("name", model.name);
  section.read("library", model.library);
  section.read("python", model.python);
  section.read("python_path", model.python_path);
  if (section.has("python")) {
    check_python(section, model);
  } else if (section.has("python_path")) {
    section.fail_at("python_path", "'python_path' is where a Python model is: it needs 'python'");
  } else if (model.name.empty() && model.library.empty()) {
    section.fail_at("name", "needs a 'name': the model to train");
  }
  model.params = to_json(section.table());
  model.params.erase("name");
  for (const char* const known : {"library", "python", "python_path"}) model.params.erase(known);
}

}  // namespace embers::job
