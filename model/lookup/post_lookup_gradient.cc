#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "model/lookup/kernels/id_words.h"
#include "model/lookup/kernels/radix_sort.h"
#include "model/lookup/kernels/unique_rows.h"
#include "model/lookup/post_lookup.h"

namespace embers {
namespace {

constexpr int64_t kRowsPerRange = 512;
constexpr size_t kStreamingFloats = size_t{1} << 18;  // from here on a result is written around the caches

WordLayout layout_of(const LookupPass& pass) {
  const auto most = std::max(pass.ids(), static_cast<size_t>(pass.bags()) + 1);
  const auto low = static_cast<unsigned>(std::bit_width(most));
  const auto high = std::bit_width(static_cast<uint64_t>(pass.table->rows()));
  if (most >= (size_t{1} << 31) || WordLayout{low}.shift() + static_cast<unsigned>(high) > 64)
    fail(ErrorCode::kInvalid, "{} ids of a table of {} rows are too many for one lookup: use smaller batches",
         most, pass.table->rows());
  return {low};
}

// Where the rows of each partition begin among ascending ones.
void find_partitions(const LocalTable& table, std::span<const int64_t> rows,
                     std::vector<size_t>& part_begin) {
  part_begin.assign(table.partitions() + 1, rows.size());
  part_begin[0] = 0;
  for (size_t p = 1; p < table.partitions(); ++p)
    part_begin[p] =
        static_cast<size_t>(std::lower_bound(rows.begin(), rows.end(), table.first_row(p)) - rows.begin());
}

// Where rows are, in floats from the table's origin.
void find_places(const LocalTable& table, std::span<const int64_t> rows, std::span<const size_t> part_begin,
                 std::span<int64_t> places) {
  for (size_t p = 0; p < table.partitions(); ++p)
    for (size_t i = part_begin[p]; i < part_begin[p + 1]; ++i)
      places[i] = table.first_offset(p) + (rows[i] - table.first_row(p)) * table.dim();
}

// Row numbers over all partitions become row numbers within their own partition.
void divide_by_partition(const LocalTable& table, std::span<const size_t> part_begin,
                         std::span<int64_t> rows) {
  for (size_t p = 1; p < table.partitions(); ++p)
    for (size_t i = part_begin[p]; i < part_begin[p + 1]; ++i) rows[i] -= table.first_row(p);
}

}  // namespace

RowGradients post_lookup_gradient(const LookupPass& pass, std::span<const float> out_gradient,
                                  LookupWorkspace& workspace, const RowKernels& kernels) {
  const auto dim = static_cast<size_t>(pass.table->dim());
  if (out_gradient.size() != static_cast<size_t>(pass.bags()) * dim)
    fail(ErrorCode::kInvalid, "the gradient has {} numbers, but the result of {} bags of dim {} has {}",
         out_gradient.size(), pass.bags(), dim, static_cast<size_t>(pass.bags()) * dim);
  auto& memory = workspace.memory;
  const WordLayout layout = layout_of(pass);
  const size_t ids = pass.ids();
  const auto row_bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(pass.table->rows())));
  const RadixSort sort(ids, layout.shift(), layout.shift() + row_bits, memory.counts);
  const std::span<uint64_t> words = memory.sorted.take(ids);
  IdShare* const shares = pass.weight != nullptr ? memory.shares.take(ids).data() : nullptr;
  const auto pack = [&](const auto& row) {
    pack_ids({row, pass.offset, pass.width, pass.weight, pass.scale, pass.norm}, layout, sort, words, shares,
             memory.begins);
  };
  pass.row.empty() ? pack(pass.row32) : pack(pass.row);
  const std::span<const uint64_t> sorted = sort.sort(words, memory.other.take(ids));
  const bool clips = pass.norm != nullptr;
  const std::span<int64_t> all_rows = memory.rows.take(ids);
  UniqueRows found{memory.begin.take(ids + 1).data(), all_rows.data(), memory.sorted_shares.take(ids).data(),
                   clips ? memory.clipped.take(ids).data() : nullptr,
                   clips ? memory.kept.take(ids).data() : nullptr};
  found.find(sorted, layout, shares, pass.scale);
  const size_t unique = found.count;
  const std::span<int64_t> rows = all_rows.first(unique);
  find_partitions(*pass.table, rows, memory.part_begin);
  const bool one_partition = pass.table->partitions() == 1;
  const int64_t* place = rows.data();
  if (!one_partition && pass.norm != nullptr) {
    const std::span<int64_t> places = memory.places.take(unique);
    find_places(*pass.table, rows, memory.part_begin, places);
    place = places.data();
  }
  const std::span<float> values = memory.values.take(unique * dim);
  const GradientTask task{found.shares,
                          found.begin,
                          out_gradient.data(),
                          pass.table->origin(),
                          one_partition ? pass.table->dim() : 1,
                          place,
                          pass.max_norm,
                          found.clipped,
                          found.kept,
                          static_cast<int64_t>(found.clipped_count),
                          static_cast<int64_t>(clips ? unique - found.clipped_count : 0),
                          pass.table->dim(),
                          values.data(),
                          dim % 16 == 0 && values.size() >= kStreamingFloats};
  workspace.threads().split(static_cast<int64_t>(unique), kRowsPerRange,
                            [&](int64_t first, int64_t last) { kernels.gradient(task, first, last); });
  divide_by_partition(*pass.table, memory.part_begin, rows);
  return {pass.table->dim(), rows, values, memory.part_begin};
}

}  // namespace embers
