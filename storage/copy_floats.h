#pragma once

#include <cstddef>

namespace embers::storage {

// Rows are short: a call of memcpy takes longer than copying one does. The floats must not overlap.
void copy_floats(float* to, const float* from, size_t n);

}  // namespace embers::storage
