#include "model/lookup/operators/lookup_operators.h"

#include <numeric>

#include "model/lookup/post_lookup.h"
#include "model/lookup/pre_lookup.h"

namespace embers {

void embedding_lookup(const LocalTable& table, const RowIds& ids, std::optional<float> max_norm,
                      LookupPass& pass, LookupWorkspace& workspace, std::span<float> out) {
  const std::span<int64_t> offsets = pass.memory.single.take(size(ids) + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  embedding_lookup_sparse(table, {ids, offsets, {}}, Combiner::kSum, max_norm, pass, workspace, out);
}

void embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids, Combiner combiner,
                             std::optional<float> max_norm, LookupPass& pass, LookupWorkspace& workspace,
                             std::span<float> out) {
  fused_embedding_lookup_sparse(table, ids, {combiner, max_norm, {}, false}, pass, workspace, out);
}

void safe_embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids, const LookupOptions& options,
                                  LookupPass& pass, LookupWorkspace& workspace, std::span<float> out) {
  fused_safe_embedding_lookup_sparse(table, ids, options, pass, workspace, out);
}

void fused_embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids,
                                   const LookupOptions& options, LookupPass& pass, LookupWorkspace& workspace,
                                   std::span<float> out) {
  pre_lookup(table, ids, options, pass);
  post_lookup(options.combiner, options.max_norm, pass, workspace, out);
}

void fused_safe_embedding_lookup_sparse(const LocalTable& table, const SparseIds& ids,
                                        const LookupOptions& options, LookupPass& pass,
                                        LookupWorkspace& workspace, std::span<float> out) {
  LookupOptions safe = options;
  safe.prune_invalid_ids = options.prune_invalid_ids.value_or(true);
  fused_embedding_lookup_sparse(table, ids, safe, pass, workspace, out);
}

RowGradients lookup_gradient(const LookupPass& pass, std::span<const float> out_gradient,
                             LookupWorkspace& workspace) {
  return post_lookup_gradient(pass, out_gradient, workspace);
}

}  // namespace embers
