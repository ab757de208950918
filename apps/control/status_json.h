#pragma once

#include <nlohmann/json.hpp>

#include "schema/status.h"

namespace embers {

// The keys that docs/control.md explains. Numbers that do not exist are null.
nlohmann::ordered_json to_json(const Status& status);
// The same, indented, or (-1) in one line. What is not UTF-8 in names is replaced.
std::string json_text(const Status& status, int indent = 2);

// The name of the job's file, without its folder.
std::string job_file(const Status& status);

}  // namespace embers
