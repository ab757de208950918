#include "model/lookup/pre_lookup.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace embers {

size_t size(const RowIds& ids) {
  return std::visit([](const auto& span) { return span.size(); }, ids);
}

namespace {

void check_options(const LookupOptions& options) {
  if (options.combiner == Combiner::kNone)
    fail(ErrorCode::kInvalid, "sparse ids need a combiner: sum, mean or sqrtn");
  if (options.max_norm && !(*options.max_norm > 0 && std::isfinite(*options.max_norm)))
    fail(ErrorCode::kInvalid, "max_norm is {}: it must be positive and finite", *options.max_norm);
}

void check_shapes(const SparseIds& ids) {
  const auto count = static_cast<int64_t>(size(ids.ids));
  if (ids.weights && static_cast<int64_t>(ids.weights->size()) != count)
    fail(ErrorCode::kInvalid, "there are {} weights for {} ids: give one for each id", ids.weights->size(),
         count);
  if (ids.offsets.empty() || ids.offsets.front() != 0 || ids.offsets.back() != count ||
      !std::is_sorted(ids.offsets.begin(), ids.offsets.end()))
    fail(ErrorCode::kInvalid, "the offsets of {} ids must go from 0 to {} in order", count, count);
}

[[noreturn]] void fail_id(const LocalTable& table, int64_t id, int64_t index, bool pruned) {
  if (id < 0 && !pruned)
    fail(ErrorCode::kInvalid,
         "id {} (number {} of the ids) is negative: set prune_invalid_ids, or use "
         "safe_embedding_lookup_sparse, to leave such ids out",
         id, index);
  fail(ErrorCode::kInvalid, "id {} (number {} of the ids) is out of range: the table has {} rows in {} {}",
       id, index, table.rows(), table.partitions(), table.partitions() == 1 ? "partition" : "partitions");
}

// No branch, so that it becomes vector code: the sign of any of the differences survives in the end.
bool all_below(std::span<const int64_t> ids, int64_t rows) {
  uint64_t signs = 0;
  for (const int64_t id : ids)
    signs |= static_cast<uint64_t>(id) | (static_cast<uint64_t>(rows - 1) - static_cast<uint64_t>(id));
  return static_cast<int64_t>(signs) >= 0;
}

bool all_positive(std::span<const float> weights) {
  int below = 0;
  for (const float w : weights) below |= !(w > 0);
  return below == 0;
}

bool any_empty(std::span<const int64_t> offsets) {
  return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

bool prunes_ids(const LookupOptions& options) { return options.prune_invalid_ids.value_or(false); }

bool prunes_weights(const SparseIds& ids, const LookupOptions& options) {
  return prunes_ids(options) && ids.weights && options.combiner != Combiner::kSum;
}

// Nothing to do but to use the ids as they are.
bool is_clean(const LocalTable& table, const SparseIds& ids, const LookupOptions& options) {
  const auto* wide = std::get_if<std::span<const int64_t>>(&ids.ids);
  return wide && table.partitions() == 1 && all_below(*wide, table.rows()) &&
         !(options.default_id && any_empty(ids.offsets)) &&
         !(prunes_weights(ids, options) && !all_positive(*ids.weights));
}

// Appends the ids that count to arrays that have room for all.
template <class Id>
class Selection {
 public:
  Selection(const LocalTable& table, const SparseIds& ids, std::span<const Id> values,
            const LookupOptions& options, LookupPass::Memory& memory)
      : table_(table), ids_(ids), values_(values), options_(options) {
    const size_t most = values.size() + (options.default_id ? ids.offsets.size() : 0);
    row_ = memory.row.take(most);
    place_ = memory.place.take(most);
    offset_ = memory.offset.take(ids.offsets.size());
    if (ids.weights) weight_ = memory.weight.take(most);
  }

  void run(LookupPass& pass) {
    offset_[0] = 0;
    for (size_t b = 0; b + 1 < ids_.offsets.size(); ++b) {
      for (int64_t p = ids_.offsets[b]; p < ids_.offsets[b + 1]; ++p) add(p);
      if (offset_[b] == static_cast<int64_t>(count_) && options_.default_id) add_default();
      offset_[b + 1] = static_cast<int64_t>(count_);
    }
    pass.row = row_.first(count_);
    pass.place = place_.first(count_);
    pass.stride = 1;
    pass.offset = offset_;
    pass.weight = ids_.weights ? weight_.data() : nullptr;
  }

 private:
  void add(int64_t p) {
    const int64_t id = values_[static_cast<size_t>(p)];
    const float weight = ids_.weights ? (*ids_.weights)[static_cast<size_t>(p)] : 1;
    if (pruned(options_, id, weight)) return;
    if (!put(id)) fail_id(table_, id, p, prunes_ids(options_));
    if (ids_.weights) weight_[count_ - 1] = weight;
  }

  void add_default() {
    if (!put(*options_.default_id))
      fail(ErrorCode::kInvalid, "default_id {} is no row of the table, which has {} rows",
           *options_.default_id, table_.rows());
    if (ids_.weights) weight_[count_ - 1] = 1;
  }

  bool put(int64_t id) {
    LocalTable::Place found;
    if (!table_.find(id, found)) return false;
    row_[count_] = found.row;
    place_[count_] = found.offset;
    ++count_;
    return true;
  }

  const LocalTable& table_;
  const SparseIds& ids_;
  const std::span<const Id> values_;
  const LookupOptions& options_;
  std::span<int64_t> row_, place_, offset_;
  std::span<float> weight_;
  size_t count_ = 0;
};

}  // namespace

void pre_lookup(const LocalTable& table, const SparseIds& ids, const LookupOptions& options,
                LookupPass& pass) {
  check_options(options);
  check_shapes(ids);
  pass.table = &table;
  if (is_clean(table, ids, options)) {
    pass.row = pass.place = std::get<std::span<const int64_t>>(ids.ids);
    pass.stride = table.dim();
    pass.offset = ids.offsets;
    pass.weight = ids.weights ? ids.weights->data() : nullptr;
    return;
  }
  std::visit([&](const auto& values) { Selection(table, ids, values, options, pass.memory).run(pass); },
             ids.ids);
}

}  // namespace embers
