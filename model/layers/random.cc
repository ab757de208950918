#include "model/layers/random.h"

#include <ATen/Context.h>

namespace embers {

std::unique_lock<std::mutex> hold_torch_random() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

void seed_torch(uint64_t seed) {
  const auto held = hold_torch_random();
  at::manual_seed(seed);
}

}  // namespace embers
