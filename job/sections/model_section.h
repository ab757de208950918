#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace embers::job {

class Section;

// [model]
struct ModelSection {
  std::string name;         // wide_deep | deepfm | dlrm, or the name a library's factory is asked for
  std::string library;      // path of a shared library with the model, or ""
  std::string python;       // "my_model:Net", a class of a Python module, or ""
  std::string python_path;  // with it: the folder in which the module is looked for first, or ""
  nlohmann::json params;    // every other key of [model], for the model itself
};

void read(Section& section, ModelSection& model);

}  // namespace embers::job
