#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "model/lookup/kernels/radix_sort.h"
#include "model/lookup/post_lookup.h"

namespace embers {
namespace {

constexpr int64_t kRowsPerRange = 512;
constexpr size_t kStreamingFloats = size_t{1} << 18;  // from here on a result is written around the caches

// Each id as one word: its row in the high bits, and in the low bits what the kernel needs to find its
// gradient.
struct Packing {
  unsigned shift;  // number of low bits
  uint64_t low_bits() const { return (uint64_t{1} << shift) - 1; }
};

Packing packing(const LookupPass& pass) {
  const auto most = std::max(pass.ids(), static_cast<size_t>(pass.bags()) + 1);
  const auto low = static_cast<unsigned>(std::bit_width(most));
  const auto high = std::bit_width(static_cast<uint64_t>(pass.table->rows()));
  if (most >= (size_t{1} << 31) || low + static_cast<unsigned>(high) > 64)
    fail(ErrorCode::kInvalid, "{} ids of a table of {} rows are too many for one lookup: use smaller batches",
         most, pass.table->rows());
  return {low};
}

template <class Row>
void pack_bags(const LookupPass& pass, std::span<const Row> row, unsigned shift, std::span<uint64_t> out) {
  for (int64_t b = 0; b < pass.bags(); ++b)
    for (int64_t p = pass.first_of(b), end = pass.first_of(b + 1); p < end; ++p)
      out[p] = static_cast<uint64_t>(row[p]) << shift | static_cast<uint64_t>(b);
}

template <class Row>
void pack_ids(const LookupPass& pass, std::span<const Row> row, unsigned shift, std::span<uint64_t> out,
              std::span<IdShare> shares) {
  for (int64_t b = 0; b < pass.bags(); ++b) {
    const float scale = pass.scale == nullptr ? 1 : pass.scale[b];
    for (int64_t p = pass.first_of(b), end = pass.first_of(b + 1); p < end; ++p) {
      out[p] = static_cast<uint64_t>(row[p]) << shift | static_cast<uint64_t>(p);
      shares[p] = {static_cast<int32_t>(b), pass.weight == nullptr ? scale : scale * pass.weight[p]};
    }
  }
}

// Writes where each unique row begins, and its number; both arrays have room for one more than there are ids.
// What is written for an id that is not the first of its row is overwritten by the next one that is.
size_t find_unique(std::span<const uint64_t> sorted, unsigned shift, uint32_t* begin, int64_t* rows) {
  size_t unique = 0;
  uint64_t before = ~uint64_t{0};
  for (size_t i = 0; i < sorted.size(); ++i) {
    const uint64_t row = sorted[i] >> shift;
    begin[unique] = static_cast<uint32_t>(i);
    rows[unique] = static_cast<int64_t>(row);
    unique += row != before;
    before = row;
  }
  begin[unique] = static_cast<uint32_t>(sorted.size());
  return unique;
}

// Row numbers over all partitions become row numbers within their own partition.
void divide_by_partition(const LocalTable& table, std::span<int64_t> rows, std::vector<size_t>& part_begin) {
  part_begin.assign(table.partitions() + 1, rows.size());
  part_begin[0] = 0;
  for (size_t p = 1; p < table.partitions(); ++p)
    part_begin[p] =
        static_cast<size_t>(std::lower_bound(rows.begin(), rows.end(), table.first_row(p)) - rows.begin());
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
  const auto [shift] = packing(pass);
  const size_t ids = pass.ids();
  const std::span<uint64_t> packed = memory.sorted.take(ids);
  const bool by_id = pass.weight != nullptr || pass.norm != nullptr;
  const IdShare* shares = nullptr;
  if (by_id) {
    const std::span<IdShare> of_ids = memory.shares.take(ids);
    pass.row.empty() ? pack_ids(pass, pass.row32, shift, packed, of_ids)
                     : pack_ids(pass, pass.row, shift, packed, of_ids);
    shares = of_ids.data();
  } else {
    pass.row.empty() ? pack_bags(pass, pass.row32, shift, packed) : pack_bags(pass, pass.row, shift, packed);
  }
  const auto row_bits = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(pass.table->rows())));
  const std::span<const uint64_t> sorted =
      radix_sort(packed, memory.other.take(ids), memory.counts, shift, shift + row_bits);
  uint32_t* begin = memory.begin.take(ids + 1).data();
  const std::span<int64_t> rows = memory.rows.take(ids + 1);
  const size_t unique = find_unique(sorted, shift, begin, rows.data());
  const std::span<float> values = memory.values.take(unique * dim);
  const GradientTask task{sorted.data(),
                          Packing{shift}.low_bits(),
                          begin,
                          shares,
                          pass.scale,
                          out_gradient.data(),
                          pass.table->origin(),
                          pass.stride,
                          pass.row.empty() ? nullptr : pass.place.data(),
                          pass.row32.data(),
                          pass.norm,
                          pass.max_norm,
                          pass.table->dim(),
                          values.data(),
                          dim % 16 == 0 && values.size() >= kStreamingFloats};
  workspace.threads().split(static_cast<int64_t>(unique), kRowsPerRange,
                            [&](int64_t first, int64_t last) { kernels.gradient(task, first, last); });
  divide_by_partition(*pass.table, rows.first(unique), memory.part_begin);
  return {pass.table->dim(), rows.first(unique), values, memory.part_begin};
}

}  // namespace embers
