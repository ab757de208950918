#include "actors/door/newcomers.h"

#include <algorithm>

namespace embers {

Newcomers::Id Newcomers::add(const std::string& peer) {
  const Id id = ++last_;
  peer_of_.emplace(id, peer);
  of_peer_[peer].insert(id);
  return id;
}

std::optional<Newcomers::Id> Newcomers::make_room() {
  if (size() <= most_) return std::nullopt;
  const auto most = std::max_element(of_peer_.begin(), of_peer_.end(), [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                              : *a.second.begin() > *b.second.begin();
  });
  const Id oldest = *most->second.begin();
  remove(oldest);
  return oldest;
}

void Newcomers::remove(Id id) {
  const auto known = peer_of_.find(id);
  if (known == peer_of_.end()) return;
  const auto peer = of_peer_.find(known->second);
  peer->second.erase(id);
  if (peer->second.empty()) of_peer_.erase(peer);
  peer_of_.erase(known);
}

}  // namespace embers
