#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/faulty_proxy.h"

namespace embers::testing_support {

// Something that goes wrong with the connections that a proxy has, as a parameter of tests.
struct Fault {
  const char* name;
  std::function<void(FaultyProxy&)> begin;
};
inline void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
inline std::string name_of(const testing::TestParamInfo<Fault>& fault) { return fault.param.name; }

// Those that everything which sends through a network must get over. Stalls begin in the middle of the next
// frame with a body of at least so many bytes.
inline std::vector<Fault> network_faults(uint32_t frame_bytes = 1) {
  using Way = FaultyProxy::Way;
  const auto hidden = [](Way way) {
    return [way](FaultyProxy& p) {
      p.hide_ends();
      p.swallow(way);
    };
  };
  const auto stalls = [frame_bytes](Way way) {
    return [way, frame_bytes](FaultyProxy& p) { p.stall_in_frame(way, frame_bytes); };
  };
  return {{"SwallowsToServer", [](FaultyProxy& p) { p.swallow(Way::kToServer); }},
          {"SwallowsToClient", [](FaultyProxy& p) { p.swallow(Way::kToClient); }},
          {"SwallowsToServerAndHidesEnds", hidden(Way::kToServer)},
          {"SwallowsToClientAndHidesEnds", hidden(Way::kToClient)},
          {"StallsInAFrameToServer", stalls(Way::kToServer)},
          {"StallsInAFrameToClient", stalls(Way::kToClient)},
          {"HalfOpen", [](FaultyProxy& p) { p.cut_silently(); }}};
}

}  // namespace embers::testing_support
