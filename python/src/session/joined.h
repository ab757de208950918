#pragma once

#include <memory>
#include <vector>

#include "client/session.h"
#include "python/src/calls/calls.h"

namespace embers::python {

// What a session's objects in Python share: the session, and the minibatches that it was leased.
struct Joined {
  std::shared_ptr<client::Session> session;
  std::vector<client::Parameter> parameters;  // as this worker told them
  uint64_t generation;                        // fork_generation() when it joined
  uint32_t window;                            // leases that may be drawn ahead
};

// Whoever lets go of it last does not wait: leaving a job may take a while, so a helper's thread does that. A
// forked child leaves it alone.
std::shared_ptr<const Joined> make_joined(Joined joined);

// Whether all sessions that are not closed yet have left by then. Some may be nobody's any more.
bool close_sessions(const Deadline& deadline);

}  // namespace embers::python
