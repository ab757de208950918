#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace embers {

// Keeps a container free of elements that are of no use any more, at a cost that does not grow with its size:
// it goes through all of them each time that their number has doubled. So at most half of them are of no use,
// but for a few.
class Sweep {
 public:
  template <class Container, class IsGone>
  void before_adding(Container& all, IsGone&& is_gone) {
    if (all.size() < next_) return;
    std::erase_if(all, is_gone);
    next_ = std::max(kFew, 2 * all.size());
  }

 private:
  static constexpr size_t kFew = 16;

  size_t next_ = kFew;
};

}  // namespace embers
