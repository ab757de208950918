#include "base/random_number.h"

#include <random>

namespace embers {

uint64_t random_number() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;
}

}  // namespace embers
