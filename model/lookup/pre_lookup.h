#pragma once

#include "model/lookup/lookup_pass.h"

namespace embers {

// Stage "pre-lookup": prunes invalid ids, gives empty bags their default id and finds each id's row in its
// partition. Sets the part of `pass` that is pre-lookup's. When there is nothing to prune or fill and the
// table has one partition, nothing is copied: the pass then refers to the caller's arrays, int64 or int32.
// Unique rows are not needed to look up rows of this process (they are read where they are): finding them is
// left to lookup_gradient(), which needs them sorted anyway.
//
// What is pruned is what tf.nn.safe_embedding_lookup_sparse prunes: ids < 0, and where weights are given and
// the combiner is not sum, ids whose weight is not > 0 (not-a-number is not). A filled id has weight 1.
// kInvalid: no combiner, a max_norm that is not positive and finite, weights that are not as many as the ids,
// offsets that do not go from 0 to the number of ids in order, an id (or a default id that is needed) that is
// not a row of the table.
void pre_lookup(const LocalTable& table, const SparseIds& ids, const LookupOptions& options,
                LookupPass& pass);

// Whether offsets of bags do not descend, and none is negative.
bool ascends(std::span<const int64_t> offsets);

// Whether it leaves out an id of this weight (1 where there are no weights).
inline bool pruned(const LookupOptions& options, int64_t id, float weight) {
  return options.prune_invalid_ids.value_or(false) &&
         (id < 0 || (options.prune_weights && options.combiner != Combiner::kSum && !(weight > 0)));
}

}  // namespace embers
