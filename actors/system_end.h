#pragma once

#include <caf/all.hpp>

#include <chrono>

// The end of an actor system within a program that goes on. ~actor_system waits without an end for two
// things: that its actors end, and that no thread uses its logger any more.
namespace embers {

// For a thread that is none of the system's and may outlive it: whoever calls a library, or works for it. CAF
// gives each thread that spawns an actor, or asks as one, the system's logger, and does not take it back. To
// be made before, and to go after, all else that the thread has of the system.
class SystemVisit {
 public:
  SystemVisit() = default;
  ~SystemVisit() { caf::logger::set_current_actor_system(nullptr); }
  SystemVisit(const SystemVisit&) = delete;
  SystemVisit& operator=(const SystemVisit&) = delete;
};

// Whether all actors of the system have ended by then.
bool actors_end_within(caf::actor_system& system, std::chrono::duration<double> time);

}  // namespace embers
