#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace embers {

// A table with Adam's slots in this process, on libtorch in C++: pulls by index_select or by a loop that
// prefetches, and Adam in one loop over the rows of a minibatch. All three matrices are in huge pages. As
// many threads as set_threads() says.
class LocalRows {
 public:
  static std::unique_ptr<LocalRows> make(int64_t rows, int64_t dim, float first_value);
  virtual ~LocalRows() = default;

  // keys.size() x dim, until the next pull.
  virtual std::span<const float> pull(std::span<const int64_t> keys) = 0;
  virtual std::span<const float> pull_prefetching(std::span<const int64_t> keys) = 0;
  // Keys that differ, and gradients of keys.size() x dim. Each call is the next step.
  virtual void push(std::span<const int64_t> keys, std::span<const float> gradients) = 0;
};

}  // namespace embers
