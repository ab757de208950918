#pragma once

#include <memory>

#include "actors/system_config.h"
#include "actors/system_end.h"
#include "actors/transport/transport.h"

namespace embers::client::detail {

// The threads and connections of a session. Whoever is in the middle of a call has it, too: the last one ends
// it.
struct SessionSystem {
  // Ending it takes little more than a transport's stop(), and a few seconds for actors. If one has not ended
  // by then, all of it is left behind: the program must not wait for ever.
  static std::shared_ptr<SessionSystem> make(Credentials credentials);

  explicit SessionSystem(Credentials credentials) : transport(system, std::move(credentials)) {}

  SystemConfig config;
  caf::actor_system system{config};
  Transport transport;
};

}  // namespace embers::client::detail
