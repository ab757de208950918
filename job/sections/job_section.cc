#include "job/sections/job_section.h"

#include "base/errors.h"
#include "job/document/section.h"

namespace embers::job {
namespace {

constexpr double kMinHeartbeat =
    0.1;  // four beats fit into it; on a busy machine, one may take longer than 25 ms
constexpr double kMaxTimeout = 31'536'000;  // a year

}  // namespace

void read(Section& section, JobSection& job) {
  section.read("name", job.name);
  section.read_count("seed", job.seed, 0, std::numeric_limits<int64_t>::max());
  section.read_positive("heartbeat_timeout", job.heartbeat_timeout);
  if (job.heartbeat_timeout < kMinHeartbeat) {
    section.fail_at("heartbeat_timeout",
                    fmt::format("'heartbeat_timeout' must be at least {} s", kMinHeartbeat));
  }
  section.read_positive("worker_timeout", job.worker_timeout);
  section.read("lease_timeout", job.lease_timeout);
  if (job.lease_timeout != 0 && !(job.lease_timeout >= kMinHeartbeat))
    section.fail_at("lease_timeout",
                    fmt::format("'lease_timeout' must be at least {} s, or 0 for automatic", kMinHeartbeat));
  for (const auto& [key, value] :
       {std::pair("heartbeat_timeout", job.heartbeat_timeout),
        std::pair("worker_timeout", job.worker_timeout), std::pair("lease_timeout", job.lease_timeout)}) {
    if (value > kMaxTimeout) section.fail_at(key, fmt::format("'{}' must be at most {} s", key, kMaxTimeout));
  }
  section.done();
}

}  // namespace embers::job
