#pragma once

#include <cstdint>

namespace embers {

// From the operating system; never 0.
uint64_t random_number();

}  // namespace embers
