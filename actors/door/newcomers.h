#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace embers {

// The connections of a server that have not shaken hands yet, `most` of them at most. When one more comes,
// the oldest one of the peer that has the most makes room. So a peer that opens many is in its own way, not
// in that of others, and one that shakes hands quickly gets in even so.
//
// *Thread safety*: none.
class Newcomers {
 public:
  using Id = uint64_t;  // grows

  explicit Newcomers(size_t most) : most_(most) {}

  // Of a new connection; `peer` is its address without the port.
  Id add(const std::string& peer);
  // If there are too many, removes one, which is to be closed.
  std::optional<Id> make_room();
  void remove(Id id);
  size_t size() const { return peer_of_.size(); }

 private:
  const size_t most_;
  Id last_ = 0;
  std::map<Id, std::string> peer_of_;
  std::map<std::string, std::set<Id>> of_peer_;
};

}  // namespace embers
