#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/scratch.h"
#include "model/lookup/combiner.h"
#include "model/lookup/kernels/row_kernels.h"
#include "model/lookup/kernels/worker_threads.h"
#include "model/lookup/local_table.h"

namespace embers {

// Ids of rows of a local table.
using RowIds = std::variant<std::span<const int64_t>, std::span<const int32_t>>;

size_t size(const RowIds& ids);

// A ragged batch of ids (sp_ids and sp_weights of TensorFlow, as compressed sparse rows). A *bag* is one row
// of the SparseTensor after all of its dimensions but the last were merged: bag b holds ids
// [offsets[b], offsets[b+1]). offsets.size() == bags + 1.
struct SparseIds {
  RowIds ids;
  std::span<const int64_t> offsets;
  std::optional<std::span<const float>> weights;  // of each id; without them each counts as 1
  int64_t width = 0;  // > 0: every bag has as many ids, and offsets, which may be empty, are not read
};

int64_t bags(const SparseIds& ids);

// Parameters of the operators on ragged ids, with TensorFlow's and DeepRec's names.
struct LookupOptions {
  Combiner combiner = Combiner::kNone;  // one of the other three must be chosen
  std::optional<float> max_norm;      // rows with a larger l2 norm are scaled to it before they are combined
  std::optional<int64_t> default_id;  // for bags without any id; without it they give zeros
  // Leave out ids < 0, and ids with weight <= 0 unless the combiner is sum. When not set, the safe operators
  // do.
  std::optional<bool> prune_invalid_ids;
  bool prune_weights = true;  // false: what is pruned are ids < 0 alone
};

// How max_norm clips the rows of a table, where most of them are looked up, many more than once.
struct RowClips {
  float max_norm = 0;
  std::span<float> rows;       // rows x dim, clipped: for the forward pass, or the table's own, overwritten
  std::span<int32_t> clipped;  // the first `count`: rows whose norm is >= max_norm, ascending
  std::span<float> factor;     // of each of these: what it is multiplied by
  int64_t count = 0;

  float factor_of(int32_t row) const;

  struct Memory {
    Scratch<float> factor;
    Scratch<int32_t> clipped;
  };
};

// What a forward pass leaves for its backward pass. May be used for call after call, and then allocates
// nothing once its arrays are as long as the longest call needs. It may refer to the table, the ids, offsets
// and weights of the call, which must stay as they are until the backward pass. *Thread safety*: none.
class LookupPass {
 public:
  // Set by pre-lookup: the ids that count.
  const LocalTable* table = nullptr;
  std::span<const int64_t> row;    // of each id: its row's number in the table
  std::span<const int64_t> place;  // of each id: where its row begins, in units of `stride` floats
  // Both in one, instead of them: int32 ids of a table of one partition, as the places that dedupe finds in a
  // BET are. Is there whenever `row` is empty.
  std::span<const int32_t> row32;
  int64_t stride = 0;
  std::span<const int64_t> offset;  // bag b has ids [offset[b], offset[b+1]); empty: see width
  int64_t width = 0;                // without offsets: bag b has ids [b * width, (b+1) * width)
  const float* weight = nullptr;    // of each id; null: 1

  // Set by post-lookup.
  const float* scale = nullptr;  // of each bag: what its sum is multiplied by; null: 1
  const float* norm = nullptr;   // of each id, as CombineTask::norm; null: nothing is clipped
  float max_norm = 0;
  // How rows are clipped (clips_for()): set between pre-lookup and post-lookup, of int32 ids only.
  // Then there is no `norm`. Where find_clips says so, this pass finds it before it needs it; else another
  // has, or does before anything is combined.
  RowClips* clips = nullptr;
  bool find_clips = false;

  size_t ids() const { return row.empty() ? row32.size() : row.size(); }
  int64_t bags() const {
    if (!offset.empty()) return static_cast<int64_t>(offset.size()) - 1;
    return width == 0 ? 0 : static_cast<int64_t>(ids()) / width;
  }
  int64_t first_of(int64_t bag) const {
    return offset.empty() ? bag * width : offset[static_cast<size_t>(bag)];
  }
  int64_t row_of(size_t id) const { return row.empty() ? row32[id] : row[id]; }
  // Where the row of an id begins, in floats from the table's origin.
  int64_t place_of(size_t id) const { return stride * (row.empty() ? row32[id] : place[id]); }

  // Memory behind the above where it is not the caller's.
  struct Memory {
    Scratch<int64_t> row, place, offset, single;
    Scratch<int32_t> row32;
    Scratch<float> weight, scale, norm;
  } memory;
};

// Memory and threads of lookups, shared by any number of passes that do not run at the same time. Results do
// not depend on the number of threads. *Thread safety*: none.
class LookupWorkspace {
 public:
  explicit LookupWorkspace(int threads = 1) : threads_(threads) {}
  WorkerThreads& threads() { return threads_; }

  // Used by the gradient; its result lives here.
  struct Memory {
    Scratch<uint64_t> sorted, other;
    Scratch<IdShare> shares, sorted_shares;
    Scratch<uint32_t> begins, begin, clipped, kept, counts;
    Scratch<int64_t> rows, places;
    Scratch<float> values;
    std::vector<size_t> part_begin;
  } memory;

 private:
  WorkerThreads threads_;
};

// Gradient of the rows that a pass looked up, each row once ("indexed slices", deduplicated): ready to push.
// Rows ascend within a partition, partitions ascend. Rows that were looked up but do not influence the result
// have zeros. Refers to the workspace: valid until its next use.
struct RowGradients {
  int64_t dim = 0;
  std::span<const int64_t> rows;       // numbers within their partition
  std::span<const float> values;       // rows.size() x dim
  std::span<const size_t> part_begin;  // partition p has rows [part_begin[p], part_begin[p+1])
};

}  // namespace embers
