#pragma once

#include <nlohmann/json.hpp>

#include "apps/plan/plan.h"

namespace embers::plan {

// The keys of docs/results.md, "Plans".
nlohmann::json to_json(const Plan& plan);

}  // namespace embers::plan
