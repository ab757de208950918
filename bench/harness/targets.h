#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/harness/statistics.h"

namespace embers {

// One entry of a report's `targets`. It holds when `value` is at least `wanted`.
nlohmann::json target(const std::string& name, const Estimate& value, double wanted);
// The same beside `limit`: what the figure would be for a program that does the least that any must. Whether
// that is beaten is for limit() to say.
nlohmann::json target(const std::string& name, const Estimate& value, double wanted, const Estimate& limit);
// One that holds when `value` is at most `wanted`.
nlohmann::json target_at_most(const std::string& name, const Estimate& value, double wanted);
nlohmann::json target_at_most(const std::string& name, const Estimate& value, double wanted,
                              const Estimate& limit);

// One entry of a report's `limits`: how many times as fast as such a program ours is. A program that is
// beaten by more than 3 % does more than it must, and so is no limit.
nlohmann::json limit(const std::string& name, const Estimate& value);

// The names of `limits` that are beaten. Noise beats nothing: the interval must lie above 1, too.
std::vector<std::string> beaten_limits(const nlohmann::json& report);

// Adds "[sizes]" to the name of every target and limit, where a run measured other sizes than those that the
// names stand for.
void name_sizes(nlohmann::json& report, const std::string& sizes);

// Targets as a table for people.
std::string table_of_targets(const nlohmann::json& report);

}  // namespace embers
