#pragma once

#include "model/lookup/lookup_pass.h"
#include "model/lookup/row_kernels.h"

namespace embers {

// Stages "lookup" and "post-lookup" in one: reads each row from the table, prefetched, scales it to max_norm
// (tf.clip_by_norm over the row), multiplies it by its weight, and combines the rows of each bag: sum; mean,
// divided by the sum of weights; sqrtn, divided by the square root of the sum of squared weights. A bag whose
// divisor is 0 gives zeros (tf.math.divide_no_nan, as tf.nn.embedding_lookup_sparse has it), as does one
// without ids. out: bags x dim. Sets post-lookup's part of `pass`, on which pre_lookup() has run.
// `combiner` and `max_norm` are those that pre_lookup() saw. kInvalid: an `out` of another size.
void post_lookup(Combiner combiner, std::optional<float> max_norm, LookupPass& pass,
                 LookupWorkspace& workspace, std::span<float> out, const RowKernels& kernels = row_kernels());

// Stage "post-lookup gradient": out_gradient[bags x dim] to the gradient of each row, summed over the places
// where the row was looked up, in their order, and carried through the clipping. kInvalid for another size.
RowGradients post_lookup_gradient(const LookupPass& pass, std::span<const float> out_gradient,
                                  LookupWorkspace& workspace, const RowKernels& kernels = row_kernels());

}  // namespace embers
