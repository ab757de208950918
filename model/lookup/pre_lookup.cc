#include "model/lookup/pre_lookup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/errors.h"

namespace embers {

size_t size(const RowIds& ids) {
  return std::visit([](const auto& span) { return span.size(); }, ids);
}

int64_t bags(const SparseIds& ids) {
  if (ids.width > 0) return static_cast<int64_t>(size(ids.ids)) / ids.width;
  return static_cast<int64_t>(ids.offsets.size()) - 1;
}

// No branch, so that it becomes vector code. Differences of numbers that are not negative do not overflow.
bool ascends(std::span<const int64_t> offsets) {
  uint64_t signs = offsets.empty() ? 0 : static_cast<uint64_t>(offsets.back());
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto low = static_cast<uint64_t>(offsets[i]), high = static_cast<uint64_t>(offsets[i + 1]);
    signs |= low | (high - low);
  }
  return static_cast<int64_t>(signs) >= 0;
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
  if (ids.width > 0) {
    if (count % ids.width == 0) return;
    fail(ErrorCode::kInvalid, "{} ids cannot be divided into bags of {}", count, ids.width);
  }
  if (ids.offsets.empty() || ids.offsets.front() != 0 || ids.offsets.back() != count || !ascends(ids.offsets))
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
template <class Id>
bool all_below(std::span<const Id> ids, Id rows) {
  using Word = std::make_unsigned_t<Id>;
  Word signs = 0;
  for (const Id id : ids)
    signs |= static_cast<Word>(id) | (static_cast<Word>(rows - 1) - static_cast<Word>(id));
  return static_cast<Id>(signs) >= 0;
}

bool all_rows(const LocalTable& table, const RowIds& ids) {
  if (const auto* wide = std::get_if<std::span<const int64_t>>(&ids)) return all_below(*wide, table.rows());
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return all_below(std::get<std::span<const int32_t>>(ids),
                   static_cast<int32_t>(std::min(table.rows(), kMost)));
}

bool all_positive(std::span<const float> weights) {
  int below = 0;
  for (const float w : weights) below |= !(w > 0);
  return below == 0;
}

bool any_empty(const SparseIds& ids) {
  return ids.width == 0 && std::adjacent_find(ids.offsets.begin(), ids.offsets.end()) != ids.offsets.end();
}

bool prunes_ids(const LookupOptions& options) { return options.prune_invalid_ids.value_or(false); }

bool prunes_weights(const SparseIds& ids, const LookupOptions& options) {
  return prunes_ids(options) && options.prune_weights && ids.weights && options.combiner != Combiner::kSum;
}

// Nothing to do but to use the ids as they are.
bool is_clean(const LocalTable& table, const SparseIds& ids, const LookupOptions& options) {
  return table.partitions() == 1 && all_rows(table, ids.ids) && !(options.default_id && any_empty(ids)) &&
         !(prunes_weights(ids, options) && !all_positive(*ids.weights));
}

// Appends the ids that count to arrays that have room for all.
template <class Id>
class Selection {
 public:
  Selection(const LocalTable& table, const SparseIds& ids, std::span<const Id> values,
            const LookupOptions& options, LookupPass::Memory& memory)
      : table_(table), ids_(ids), values_(values), options_(options), bags_(static_cast<size_t>(bags(ids))) {
    const size_t most = values.size() + (options.default_id ? bags_ : 0);
    narrow_ = sizeof(Id) == sizeof(int32_t) && table.partitions() == 1 &&
              table.rows() <= std::numeric_limits<int32_t>::max();
    if (narrow_) {
      row32_ = memory.row32.take(most);
    } else {
      row_ = memory.row.take(most);
      place_ = memory.place.take(most);
    }
    offset_ = memory.offset.take(bags_ + 1);
    if (ids.weights) weight_ = memory.weight.take(most);
  }

  void run(LookupPass& pass) {
    offset_[0] = 0;
    for (size_t b = 0; b < bags_; ++b) {
      const auto bag = static_cast<int64_t>(b);
      const int64_t begin = ids_.width > 0 ? bag * ids_.width : ids_.offsets[b];
      const int64_t end = ids_.width > 0 ? begin + ids_.width : ids_.offsets[b + 1];
      for (int64_t p = begin; p < end; ++p) add(p);
      if (offset_[b] == static_cast<int64_t>(count_) && options_.default_id) add_default();
      offset_[b + 1] = static_cast<int64_t>(count_);
    }
    pass.row = row_.first(narrow_ ? 0 : count_);
    pass.place = place_.first(narrow_ ? 0 : count_);
    pass.row32 = row32_.first(narrow_ ? count_ : 0);
    pass.stride = narrow_ ? table_.dim() : 1;
    pass.offset = offset_;
    pass.width = 0;
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
      fail(ErrorCode::kInvalid, "default_id {} is not a row of the table, which has {} rows",
           *options_.default_id, table_.rows());
    if (ids_.weights) weight_[count_ - 1] = 1;
  }

  bool put(int64_t id) {
    if (narrow_) {
      if (id < 0 || id >= table_.rows()) return false;
      row32_[count_++] = static_cast<int32_t>(id);
      return true;
    }
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
  const size_t bags_;
  bool narrow_;
  std::span<int64_t> row_, place_, offset_;
  std::span<int32_t> row32_;
  std::span<float> weight_;
  size_t count_ = 0;
};

}  // namespace

void pre_lookup(const LocalTable& table, const SparseIds& ids, const LookupOptions& options,
                LookupPass& pass) {
  check_options(options);
  check_shapes(ids);
  pass.table = &table;
  pass.clips = nullptr;
  pass.find_clips = false;
  if (is_clean(table, ids, options)) {
    pass.row = pass.place = {};
    pass.row32 = {};
    if (const auto* narrow = std::get_if<std::span<const int32_t>>(&ids.ids)) {
      pass.row32 = *narrow;
    } else {
      pass.row = pass.place = std::get<std::span<const int64_t>>(ids.ids);
    }
    pass.stride = table.dim();
    pass.offset = ids.width > 0 ? std::span<const int64_t>() : ids.offsets;
    pass.width = ids.width;
    pass.weight = ids.weights ? ids.weights->data() : nullptr;
    return;
  }
  std::visit([&](const auto& values) { Selection(table, ids, values, options, pass.memory).run(pass); },
             ids.ids);
}

}  // namespace embers
