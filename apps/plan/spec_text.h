#pragma once

#include <string>

#include "schema/table_spec.h"

// Specs as values of a job file, on one line: the other direction of job/sections/specs.h.
namespace embers::plan {

std::string toml(const std::string& text);           // quoted
std::string toml(const UpdateRuleSpec& rule);        // { name = "adam", learning_rate = 0.001 }
std::string toml(const ConstraintSpec& constraint);  // "" for none

}  // namespace embers::plan
