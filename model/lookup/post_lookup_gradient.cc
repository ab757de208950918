#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "model/lookup/kernels/radix_sort.h"
#include "model/lookup/post_lookup.h"

namespace embers {
namespace {

constexpr int64_t kRowsPerRange = 512;
constexpr size_t kStreamingFloats = size_t{1} << 18;  // from here on a result is written around the caches

// Each id as one word: its row in the high bits, then whether that was clipped, which is the same for all ids
// of a row, and in the low bits the number of its bag; or its own, where ids have weights.
struct Packing {
  unsigned low;  // number of low bits
  unsigned shift() const { return low + 1; }
  uint64_t low_bits() const { return (uint64_t{1} << low) - 1; }
  uint64_t pack(int64_t row, bool clipped, uint64_t rest) const {
    return static_cast<uint64_t>(row) << shift() | static_cast<uint64_t>(clipped) << low | rest;
  }
};

Packing packing_of(const LookupPass& pass) {
  const auto most = std::max(pass.ids(), static_cast<size_t>(pass.bags()) + 1);
  const auto low = static_cast<unsigned>(std::bit_width(most));
  const auto high = std::bit_width(static_cast<uint64_t>(pass.table->rows()));
  if (most >= (size_t{1} << 31) || Packing{low}.shift() + static_cast<unsigned>(high) > 64)
    fail(ErrorCode::kInvalid, "{} ids of a table of {} rows are too many for one lookup: use smaller batches",
         most, pass.table->rows());
  return {low};
}

template <class Row>
void pack_bags(const LookupPass& pass, std::span<const Row> row, Packing packing, std::span<uint64_t> out) {
  const float* const norm = pass.norm;
  for (int64_t b = 0; b < pass.bags(); ++b)
    for (int64_t p = pass.first_of(b), end = pass.first_of(b + 1); p < end; ++p)
      out[p] = packing.pack(row[p], norm != nullptr && norm[p] != 0, static_cast<uint64_t>(b));
}

template <class Row>
void pack_ids(const LookupPass& pass, std::span<const Row> row, Packing packing, std::span<uint64_t> out,
              std::span<IdShare> shares) {
  const float* const norm = pass.norm;
  for (int64_t b = 0; b < pass.bags(); ++b) {
    const float scale = pass.scale == nullptr ? 1 : pass.scale[b];
    for (int64_t p = pass.first_of(b), end = pass.first_of(b + 1); p < end; ++p) {
      out[p] = packing.pack(row[p], norm != nullptr && norm[p] != 0, static_cast<uint64_t>(p));
      shares[p] = {static_cast<int32_t>(b), scale * pass.weight[p]};
    }
  }
}

// The unique rows of sorted ids. Arrays have room for one more than there are ids.
struct UniqueRows {
  uint32_t* begin;  // where each begins
  int64_t* rows;    // their numbers
  IdShare* shares;  // of the ids
  uint32_t *clipped, *kept;
  size_t count = 0, clipped_count = 0;

  // What is written for an id that is not the first of its row is overwritten by the next one that is.
  template <bool kClips, class ShareOf>
  void find(std::span<const uint64_t> sorted, const Packing packing, const ShareOf& share_of) {
    UniqueRows to = *this;  // a copy, so that it stays in registers
    const uint64_t low_bits = packing.low_bits();
    uint64_t before = ~uint64_t{0};
    size_t kept_count = 0;
    for (size_t i = 0; i < sorted.size(); ++i) {
      const uint64_t row = sorted[i] >> packing.shift();
      to.shares[i] = share_of(sorted[i] & low_bits);
      to.begin[to.count] = static_cast<uint32_t>(i);
      to.rows[to.count] = static_cast<int64_t>(row);
      const bool is_new = row != before;
      if (kClips) {
        const auto is_clipped = static_cast<size_t>(sorted[i] >> packing.low & 1);
        to.clipped[to.clipped_count] = to.kept[kept_count] = static_cast<uint32_t>(to.count);
        to.clipped_count += is_new & is_clipped;
        kept_count += is_new & ~is_clipped;
      }
      to.count += is_new;
      before = row;
    }
    to.begin[to.count] = static_cast<uint32_t>(sorted.size());
    *this = to;
  }
};

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
  const Packing packing = packing_of(pass);
  const size_t ids = pass.ids();
  const std::span<uint64_t> packed = memory.sorted.take(ids);
  const IdShare* shares = nullptr;
  if (pass.weight != nullptr) {
    const std::span<IdShare> of_ids = memory.shares.take(ids);
    pass.row.empty() ? pack_ids(pass, pass.row32, packing, packed, of_ids)
                     : pack_ids(pass, pass.row, packing, packed, of_ids);
    shares = of_ids.data();
  } else {
    pass.row.empty() ? pack_bags(pass, pass.row32, packing, packed)
                     : pack_bags(pass, pass.row, packing, packed);
  }
  const auto row_bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(pass.table->rows())));
  const std::span<const uint64_t> sorted =
      radix_sort(packed, memory.other.take(ids), memory.counts, packing.shift(), packing.shift() + row_bits);
  const bool clips = pass.norm != nullptr;
  const std::span<int64_t> all_rows = memory.rows.take(ids + 1);
  UniqueRows found{memory.begin.take(ids + 1).data(), all_rows.data(), memory.sorted_shares.take(ids).data(),
                   memory.clipped.take(clips ? ids + 1 : 0).data(),
                   memory.kept.take(clips ? ids + 1 : 0).data()};
  const auto find = [&](const auto& share_of) {
    clips ? found.find<true>(sorted, packing, share_of) : found.find<false>(sorted, packing, share_of);
  };
  const float* const scale = pass.scale;
  if (shares != nullptr)
    find([shares](uint64_t p) { return shares[p]; });
  else if (scale != nullptr)
    find([scale](uint64_t b) { return IdShare{static_cast<int32_t>(b), scale[b]}; });
  else
    find([](uint64_t b) { return IdShare{static_cast<int32_t>(b), 1}; });
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
