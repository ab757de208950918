#include "actors/system_end.h"

#include <thread>

namespace embers {

bool actors_end_within(caf::actor_system& system, std::chrono::duration<double> time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (system.registry().running() > 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace embers
