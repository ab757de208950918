#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "apps/command_line/command.h"

namespace embers {

// Parts of `embers bench python`; they add to the report's `targets` and own key.
void measure_training(const BenchOptions& options, const std::string& dir, nlohmann::json& report);
void measure_lookup(const BenchOptions& options, const std::string& dir, nlohmann::json& report);
// The C++ side of the latter, a process of its own: `embers-bench part python-lookup MASTER CHUNKS KEYS`.
void serve_lookup(const std::string& master, size_t chunks, size_t keys);

}  // namespace embers
