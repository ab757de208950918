#include "actors/spawn.h"

#include "actors/errors.h"

namespace embers {
namespace {

constexpr auto kLongestWait = std::chrono::hours(24);  // of virtual time: somebody ticks in vain

using Work = std::function<void(caf::blocking_actor*)>;

caf::result<void> run(caf::blocking_actor* self, const Work& work) {
  try {
    work(self);
    return caf::unit;
  } catch (const Error& e) {
    return to_caf(e);
  } catch (const std::exception& e) {
    return to_caf(Error(ErrorCode::kInternal, e.what()));
  }
}

}  // namespace

Simulator* simulator(caf::actor_system& system) { return dynamic_cast<Simulator*>(&system.scheduler()); }

bool step(Simulator& simulator) { return simulator.try_run_once() || simulator.trigger_timeout(); }

caf::actor spawn_work(caf::actor_system& system, Work work) {
  if (simulator(system) == nullptr)
    return system.spawn<caf::detached>(
        [](caf::blocking_actor* self, const Work& does) {
          self->receive([&](begin_atom) { return run(self, does); });
        },
        std::move(work));
  return system.spawn(
      [](caf::event_based_actor* self, const Work& does) -> caf::behavior {
        return {[=](begin_atom) {
          self->quit();
          const caf::scoped_actor inner(self->system());
          return run(inner.ptr(), does);
        }};
      },
      std::move(work));
}

void let_answer(caf::blocking_actor* self, size_t answers) {
  Simulator* const system = simulator(self->home_system());
  if (system == nullptr) return;
  const auto latest = system->clock().now() + kLongestWait;
  while (self->mailbox().size() < answers)
    if (!step(*system) || system->clock().now() > latest)
      fail(ErrorCode::kInternal, "in this simulation, nobody answers");
}

}  // namespace embers
