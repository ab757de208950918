#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/floats/stores.h"
#include "bench/wire/keys.h"
#include "storage/memory/pages.h"

namespace embers {

// As many rows as embers' side has, with the same values, and where each minibatch's rows are: what a bare
// server copies from, without having to find anything.
class KnownRows {
 public:
  KnownRows();

  // The rows of this minibatch.
  std::span<const float* const> places(size_t minibatch) const {
    return std::span<const float* const>(places_).subspan(minibatch % kBenchMinibatches * kBenchKeys,
                                                          kBenchKeys);
  }
  // Copies `count` of them from the first-th on.
  void copy(size_t minibatch, size_t first, size_t count, float* to);
  // Copies all, so.
  void copy(size_t minibatch, float* to, Stores stores);

 private:
  storage::Pages pages_;
  std::vector<const float*> places_;
  std::vector<uint8_t> found_ = std::vector<uint8_t>(kBenchKeys);
};

}  // namespace embers
