#include "client/session_system.h"

#include <spdlog/spdlog.h>

namespace embers::client::detail {
namespace {

constexpr auto kEnd = std::chrono::seconds(5);

void end(SessionSystem* system) {
  system->transport.stop();
  if (actors_end_within(system->system, kEnd)) {
    delete system;
  } else {
    spdlog::warn(
        "a session has been closed, but some of its actors have not ended: their threads are left behind");
  }
}

}  // namespace

std::shared_ptr<SessionSystem> SessionSystem::make(Credentials credentials) {
  return {new SessionSystem(std::move(credentials)), end};
}

}  // namespace embers::client::detail
