#pragma once

#include <caf/all.hpp>

#include <functional>
#include <string>
#include <vector>

#include "client/pipeline/session_actor.h"

namespace embers {

// Where a session reaches each owner. Plain state of the session's actor.
class OwnerPlaces {
 public:
  // Connects to the owners as the master lists them, except those that are not lost and have not moved.
  // `connected` is told of each new one.
  void update(capnp::List<wire::JoinReply::Owner>::Reader list, const SessionConfig& config,
              uint64_t incarnation, const std::function<void(const OwnerHandles&)>& connected);

  // An actor is gone; false when it does not belong to an owner (any more).
  bool lose(const caf::actor_addr& actor);
  std::vector<OwnerHandles> handles() const;  // by owner number

 private:
  struct Place {
    std::vector<std::string> endpoints;
    std::string boot_id;
    OwnerHandles handles;
    bool lost = true;  // or never connected
  };
  std::vector<Place> places_;  // by owner number
};

}  // namespace embers
