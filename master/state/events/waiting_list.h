#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "master/state/events/events.h"

namespace embers {

// A request that waits for its answer.
struct Waiting {
  Ticket ticket;
  uint64_t incarnation;
  Time since;
};

// Requests of one kind, one of each member at most, in the order in which they came. A member's is found
// without a look at the others', of which there may be thousands. Plain state, owned by the master.
class WaitingList {
 public:
  // A place in the order: grows with each request.
  using Place = uint64_t;

  // The member must not have one that waits: take() it first.
  void add(const Waiting& request) {
    of_[request.incarnation] = next_;
    requests_.emplace(next_++, request);
  }
  // Takes the member's request out, if it has one.
  std::optional<Ticket> take(uint64_t incarnation) {
    const auto found = of_.extract(incarnation);
    if (!found) return std::nullopt;
    return requests_.extract(found.mapped()).mapped().ticket;
  }
  std::vector<Waiting> take_all() {
    std::vector<Waiting> all;
    take_if([&](const Waiting& w) { return all.push_back(w), true; });
    return all;
  }
  // Takes out those for which `answered`, called from the oldest on that came at `from` or later, is true.
  // Goes on as long as there is `more` to answer with.
  template <class F>
  void take_if(F&& answered, Place from = 0, const std::function<bool()>& more = nullptr) {
    for (auto it = requests_.lower_bound(from); it != requests_.end() && (!more || more());) {
      if (answered(it->second)) {
        of_.erase(it->second.incarnation);
        it = requests_.erase(it);
      } else {
        ++it;
      }
    }
  }
  template <class F>
  void for_each(F&& f, Place from = 0) const {
    for (auto it = requests_.lower_bound(from); it != requests_.end(); ++it) f(it->second);
  }

  bool contains(uint64_t incarnation) const { return of_.contains(incarnation); }
  bool empty() const { return requests_.empty(); }
  size_t size() const { return requests_.size(); }
  Place next() const { return next_; }  // of the next one that comes

 private:
  std::map<Place, Waiting> requests_;
  std::unordered_map<uint64_t, Place> of_;  // by incarnation
  Place next_ = 1;
};

}  // namespace embers
