#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace embers {

// Offsets of the bags (see SparseIds) of a tf.SparseTensor: indices[ids x rank], row after row of `rank`
// coordinates, and dense_shape[rank]. All dimensions but the last are merged into one, as
// tf.nn.safe_embedding_lookup_sparse merges them: the result has dense_shape[0] * ... * dense_shape[rank - 2]
// bags. Any rank from 2. Within a bag the ids keep their order, whatever their columns are. kInvalid: a shape
// of fewer than two dimensions or with a negative one, indices that are not a multiple of the rank, an index
// outside the shape, and bags that do not come in ascending order (TensorFlow leaves them undefined).
std::vector<int64_t> bag_offsets(std::span<const int64_t> indices, std::span<const int64_t> dense_shape);

}  // namespace embers
