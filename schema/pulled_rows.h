#pragma once

#include <vector>

#include "base/floats/float_buffer.h"

namespace embers {

// Rows that arrived for one minibatch.
struct PulledRows {
  std::vector<FloatBuffer> bets;  // one for each embedding table that was asked for: [keys x dim]
  FloatBuffer dense;              // [chunks x kDenseChunk]; empty: the model keeps the values it has
  FloatBuffer buffers;            // the same for buffers
};

}  // namespace embers
