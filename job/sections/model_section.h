#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace embers::job {

class Section;

// [model]
struct ModelSection {
  std::string name;       // wide_deep | deepfm | dlrm, or the name a library's factory is asked for
  std::string library;    // path of a shared library with the model, or ""
  nlohmann::json params;  // every other key of [model], for the model itself
};

void read(Section& section, ModelSection& model);

}  // namespace embers::job
