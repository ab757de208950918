#pragma once

#include <torch/types.h>

#include <optional>
#include <vector>

#include "model/lookup/lookup_pass.h"

// The operators of lookup_operators.h on tensors, with autograd: a backward pass gives every partition a
// sparse gradient with one row, in ascending order, for each row that was looked up: coalesced, though
// libtorch drops that flag where it stores a leaf's first gradient. Weights that require one get theirs, as
// in TensorFlow.
namespace embers {

// `params` of TensorFlow: partitions of one embedding table, each rows x dim, float32, contiguous, on the
// CPU. They must not change between forward and backward.
struct TableTensors {
  std::vector<torch::Tensor> params;
  PartitionStrategy strategy = PartitionStrategy::kDiv;
  std::vector<int64_t> blocknums = {};  // see LocalTable
};

// A tf.SparseTensor of ids; bag_offsets() says what is required of it.
struct SparseIdTensors {
  torch::Tensor indices;             // ids x rank, int64
  torch::Tensor values;              // ids, int64 or int32
  std::vector<int64_t> dense_shape;  // rank
  torch::Tensor weights = {};        // ids, float32; undefined: each counts as 1
};

// Offsets of its bags; kInvalid for indices that do not fit the values or the shape.
std::vector<int64_t> bag_offsets(const SparseIdTensors& ids);

// ids: int64 or int32, any shape. Result: shape of the ids, then dim.
torch::Tensor embedding_lookup(const TableTensors& table, const torch::Tensor& ids,
                               std::optional<float> max_norm = {});

// Result: dense_shape without its last dimension, then dim.
torch::Tensor embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                      Combiner combiner, std::optional<float> max_norm = {});
torch::Tensor safe_embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                           const LookupOptions& options);
torch::Tensor fused_embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                            const LookupOptions& options);
torch::Tensor fused_safe_embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                                 const LookupOptions& options);

}  // namespace embers
