#pragma once

#include <cstdint>
#include <string>

namespace embers::job {

class Section;

// [job]
struct JobSection {
  std::string name = "job";
  uint64_t seed = 1;
  double heartbeat_timeout = 10;  // seconds without a sign of life before a peer is given up on
  double worker_timeout = 60;     // seconds that a job without any worker waits for one
  double lease_timeout = 0;       // seconds over a minibatch before others compute it, too; 0: found out
};

void read(Section& section, JobSection& job);

}  // namespace embers::job
