#pragma once

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <functional>
#include <utility>

// Where actors get threads and wait for answers: the seams by which a whole job runs in the thread of a test,
// on virtual time (tests/support/simulation.h). In a simulated system, all actors take turns.
namespace embers {

using Simulator = caf::scheduler::test_coordinator;

// Null unless the system is simulated.
Simulator* simulator(caf::actor_system& system);

// Takes the next message to its actor. If there is none, time goes on to the next moment at which something
// is due. Returns whether there was anything to do.
bool step(Simulator& simulator);

// As actor_system::spawn(), for an actor that may wait for files, servers or other actors: it gets a thread
// of its own.
template <class... Args>
auto spawn_with_thread(caf::actor_system& system, Args&&... args) {
  return simulator(system) != nullptr ? system.spawn(std::forward<Args>(args)...)
                                      : system.spawn<caf::detached>(std::forward<Args>(args)...);
}

// What sets an actor of spawn_work() to work.
using begin_atom = caf::atom_constant<caf::atom("begin")>;

// An actor that does `work` once it is told to begin, answers when it is done, with the error if there was
// one, and ends. Work may ask other actors and wait (ask.h).
caf::actor spawn_work(caf::actor_system& system, std::function<void(caf::blocking_actor*)> work);

// Before a blocking actor waits for answers: a simulated system goes on until it has so many. kInternal if
// nobody will ever send them.
void let_answer(caf::blocking_actor* self, size_t answers = 1);

}  // namespace embers
