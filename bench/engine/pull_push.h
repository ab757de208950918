#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "bench/engine/table.h"
#include "bench/harness/contest.h"

namespace embers {

// One table and one distribution of keys.
struct PullPushPoint {
  uint32_t dim;
  bool zipf;
  bool push;  // also measured; the table must have slots
};

struct PullPush {
  nlohmann::json report;
  Estimate pull_vs_floor, push_vs_floor;  // times as fast as the floor
};

// Pulls and pushes, beside their floors, of so many minibatches of the table's rows. First of all, every
// pulled row is compared with what lies in its place, and a few pushes with Adam's formula.
PullPush measure_pull_push(Engine& engine, const PullPushPoint& point, size_t minibatches, size_t rounds);

}  // namespace embers
