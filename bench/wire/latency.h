#pragma once

#include <nlohmann/json.hpp>

#include "bench/harness/processes.h"
#include "bench/harness/statistics.h"

namespace embers {

// Latencies of pulls that two clients ask of one owner on this host, as users get them, at moments that do
// not depend on answers: at 50, 80 and 95 % of what they pull when each asks as soon as it is answered; and,
// at 80 %, those of orders to that owner. Beside them those of "blocking" (sockets.h) over Unix sockets, at
// the same shares of its own capacity, and the owner's at 80 % of that.
struct WireLatency {
  nlohmann::json report;   // by share; "blocking", by share; "at_80_of_blocking"
  nlohmann::json control;  // round trips of orders
  Estimate p99_ms;         // at 80 %
};
WireLatency measure_wire_latency(double seconds, size_t rounds);

}  // namespace embers
