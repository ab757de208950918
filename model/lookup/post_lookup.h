#pragma once

#include "model/lookup/kernels/row_kernels.h"
#include "model/lookup/lookup_pass.h"

namespace embers {

// Stages "lookup" and "post-lookup" in one: reads each row from the table, prefetched, scales it to max_norm
// (tf.clip_by_norm over the row), multiplies it by its weight, and combines the rows of each bag: sum; mean,
// divided by the sum of weights; sqrtn, divided by the square root of the sum of squared weights. A bag whose
// divisor is 0 gives zeros (tf.math.divide_no_nan, as tf.nn.embedding_lookup_sparse has it), as does one
// without ids. out: bags x dim. Sets post-lookup's part of `pass`, on which pre_lookup() has run.
// `combiner` and `max_norm` are those that pre_lookup() saw. kInvalid: an `out` of another size.
void post_lookup(Combiner combiner, std::optional<float> max_norm, LookupPass& pass,
                 LookupWorkspace& workspace, std::span<float> out, const RowKernels& kernels = row_kernels());

// Room for how max_norm clips the rows of a table of one partition, for all passes on it: in training, where
// the table holds a minibatch's unique rows. Refers to `memory`. Whoever finds the clips gives `rows` memory
// until the last post-lookup with them has ended: memory that was written just now is the fastest.
RowClips clips_for(const LocalTable& table, float max_norm, RowClips::Memory& memory);
// Fills it. A pass of its own can do that while it combines (LookupPass::find_clips).
void find_clips(const LocalTable& table, RowClips& clips, const RowKernels& kernels = row_kernels());

// Stage "post-lookup gradient": out_gradient[bags x dim] to the gradient of each row, summed over the places
// where the row was looked up, in their order, and carried through the clipping. kInvalid for another size.
RowGradients post_lookup_gradient(const LookupPass& pass, std::span<const float> out_gradient,
                                  LookupWorkspace& workspace, const RowKernels& kernels = row_kernels());

// The same where every row of the table is wanted, of several passes on it, all of int32 ids: places are
// counted already, so that nothing is sorted. out[rows x dim] becomes the sum over the passes, in their
// order, of each one's gradient; rows that none looked up get zeros. gradients[i] is that of the result of
// passes[i]. All passes that clip have found their clips ahead. `memory` is used where passes clip
// differently. kInternal for a gradient or an `out` of another size.
struct OutGradient {
  std::span<const float> values;
  int64_t stride;  // that of bag b begins at values[b * stride]
};
void dense_gradient(std::span<const LookupPass* const> passes, std::span<const OutGradient> gradients,
                    Scratch<float>& memory, std::span<float> out, const RowKernels& kernels = row_kernels());

}  // namespace embers
