#pragma once

#include "model/lookup/lookup_pass.h"

// The lookup operators of TensorFlow and DeepRec over tables in this process's memory, forward and backward.
// One engine: pre_lookup -> post_lookup -> post_lookup_gradient. `table` is TensorFlow's `params`, its
// partition_strategy and DeepRec's blocknums included. All of them throw kInvalid, with the id or the sizes
// that do not fit, before they write anything but `pass` and `out`.
namespace embers {

// tf.nn.embedding_lookup: out[i] = row ids[i], scaled to max_norm. out: ids x dim. No id may be negative.
void embedding_lookup(const LocalTable& table, const RowIds& ids, std::optional<float> max_norm,
                      LookupPass& pass, LookupWorkspace& workspace, std::span<float> out);

// tf.nn.embedding_lookup_sparse: out[b] combines the rows of bag b. out: bags x dim. No id may be negative. A
// bag without ids, which TensorFlow leaves undefined, gives zeros, wherever it stands.
void embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids, Combiner combiner,
                             std::optional<float> max_norm, LookupPass& pass, LookupWorkspace& workspace,
                             std::span<float> out);

// tf.nn.safe_embedding_lookup_sparse: the above after invalid ids were pruned, unless prune_invalid_ids is
// false (DeepRec's `prune=False`), and empty bags filled (see pre_lookup).
void safe_embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids, const LookupOptions& options,
                                  LookupPass& pass, LookupWorkspace& workspace, std::span<float> out);

// DeepRec's fused_embedding_lookup_sparse and fused_safe_embedding_lookup_sparse, without their restrictions:
// weights, partition strategy mod and any number of partitions work. They differ in what an unset
// prune_invalid_ids means: the safe one prunes, and equals safe_embedding_lookup_sparse.
void fused_embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids,
                                   const LookupOptions& options, LookupPass& pass, LookupWorkspace& workspace,
                                   std::span<float> out);
void fused_safe_embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids,
                                        const LookupOptions& options, LookupPass& pass,
                                        LookupWorkspace& workspace, std::span<float> out);

// Gradient of any of the above: out_gradient has the shape of `out`.
RowGradients lookup_gradient(const LookupPass& pass, std::span<const float> out_gradient,
                             LookupWorkspace& workspace);

}  // namespace embers
