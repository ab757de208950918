#pragma once

#include <span>
#include <vector>

#include "schema/ids.h"

namespace embers::storage {

// Which keys of a list occur in it more than once. *Thread safety*: none.
class BatchIndex {
 public:
  void assign(KeysView keys);
  // The place of the first key that equals the i-th.
  size_t first(size_t i) const { return first_[i]; }
  // values[keys.size() x width] with the last value of a key at each of its places.
  std::vector<float> last_of_each(KeysView keys, std::span<const float> values, size_t width);

 private:
  std::vector<uint32_t> first_;
  std::vector<uint32_t> cells_;  // open addressing: place of a key + 1, or 0
};

}  // namespace embers::storage
