#pragma once

#include <cstdint>

namespace embers::plan {

// Bytes that this process's open TCP connections have carried so far, as the system counts them.
struct TcpTraffic {
  uint64_t sent = 0, received = 0;
  static TcpTraffic now();
};

}  // namespace embers::plan
