#pragma once

#include <caf/all.hpp>

#include <cstdint>

namespace embers {

// Settings of the actor system that suit embers; see system_config.cc.
class SystemConfig : public caf::actor_system_config {
 public:
  // For a process with this many owners.
  explicit SystemConfig(uint32_t owners = 1);
  // For a process whose actors are quick to answer: a master's.
  SystemConfig& with_quick_actors();
};

}  // namespace embers
