#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

namespace embers {

// All commands with their options, and all keys of job files, for other programs:
//   {"commands": [{"name": "shard", "description": "..", "aliases": ["owner"],
//                  "options": [{"name": "--report", "description": "..", "default": "..", "required": false,
//                               "aliases": ["-r"]}, ..]}, ..],
//    "job": {"training": ["mode", ..], ..}}
// The first command is embers itself. "default" and "aliases" are present only where there are any.
nlohmann::json describe(const CLI::App& app);

}  // namespace embers
