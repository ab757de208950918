#include "client/pipeline/owner_places.h"

#include <algorithm>

#include "schema/messages/codec.h"

namespace embers {

void OwnerPlaces::update(capnp::List<wire::JoinReply::Owner>::Reader list, const SessionConfig& config,
                         uint64_t incarnation, const std::function<void(const OwnerHandles&)>& connected) {
  places_.resize(list.size());
  for (unsigned i = 0; i < list.size(); ++i) {
    Place& place = places_[i];
    const auto endpoints = read_texts(list[i].getEndpoints());
    const std::string boot_id = list[i].getBootId();
    if (!place.lost && place.endpoints == endpoints && place.boot_id == boot_id) continue;
    if (place.handles.optimizer && config.drop_owner) config.drop_owner(place.handles);
    place = {endpoints, boot_id, config.connect_owner(i, endpoints, boot_id, incarnation), false};
    connected(place.handles);
  }
}

bool OwnerPlaces::lose(const caf::actor_addr& actor) {
  for (Place& place : places_)
    if (place.handles.optimizer.address() == actor || place.handles.shard.address() == actor)
      return place.lost = true;
  return false;
}

std::vector<OwnerHandles> OwnerPlaces::handles() const {
  std::vector<OwnerHandles> out;
  for (const Place& place : places_) out.push_back(place.handles);
  return out;
}

}  // namespace embers
