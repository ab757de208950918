#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "actors/transport/client.h"

namespace embers {

using ProbeInterface = Interface<ProbeRequests>;
using ProbeActor = ProbeInterface::Actor;

inline constexpr uint32_t kMostProbed = 8 << 20;               // bytes of an answer
inline constexpr auto kCallTimeout = std::chrono::seconds(4);  // of a call back

// What a process says about itself, as wire::AboutReply has it. Constant after its start.
struct About {
  std::string name;
  std::vector<std::string> settings, numeric;
  struct Place {
    std::string name;
    std::vector<std::string> endpoints;
    std::string boot_id;
  };
  std::function<std::vector<Place>()> owners;  // any thread. Null for none
};

// Spawns an actor that answers whoever examines the network of a job. It calls back through `transport`, as
// who `hello` says.
ProbeActor spawn_probe(Transport& transport, About about, const HelloInfo& hello);

}  // namespace embers
