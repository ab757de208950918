#pragma once

#include <nlohmann/json.hpp>

#include "master/state/events/counts.h"

namespace embers {

// The keys that the README lists.
nlohmann::json to_json(const Report& report);

}  // namespace embers
