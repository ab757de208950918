#include "model/lookup/local_table.h"

#include <algorithm>

#include "base/errors.h"

namespace embers {
namespace {

void check(const std::vector<std::span<const float>>& partitions, int64_t dim,
           std::span<const int64_t> blocknums) {
  if (partitions.empty())
    fail(ErrorCode::kInvalid, "an embedding table needs at least one partition, but params is empty");
  if (dim < 1) fail(ErrorCode::kInvalid, "an embedding table has dim {}: it must be at least 1", dim);
  for (size_t p = 0; p < partitions.size(); ++p)
    if (partitions[p].size() % static_cast<size_t>(dim) != 0)
      fail(ErrorCode::kInvalid, "partition {} has {} numbers, which is not a multiple of the dim {}", p,
           partitions[p].size(), dim);
  if (!blocknums.empty() && blocknums.size() != partitions.size())
    fail(ErrorCode::kInvalid, "blocknums has {} counts for {} partitions: give one for each",
         blocknums.size(), partitions.size());
  for (size_t p = 0; p < blocknums.size(); ++p) {
    const auto rows = static_cast<int64_t>(partitions[p].size()) / dim;
    if (blocknums[p] < 0 || blocknums[p] > rows)
      fail(ErrorCode::kInvalid, "blocknums says {} rows for partition {}, which has {}", blocknums[p], p,
           rows);
  }
}

}  // namespace

LocalTable::LocalTable(std::vector<std::span<const float>> partitions, int64_t dim,
                       PartitionStrategy strategy, std::span<const int64_t> blocknums)
    : dim_(dim), strategy_(strategy), counted_(!blocknums.empty()) {
  check(partitions, dim, blocknums);
  int64_t first = 0;
  for (size_t p = 0; p < partitions.size(); ++p) {
    const float* values = partitions[p].data();
    const auto held = static_cast<int64_t>(partitions[p].size()) / dim;
    const int64_t rows = counted_ ? blocknums[p] : held;
    if (held > 0 && origin_ == nullptr) origin_ = values;
    // Floats lie at multiples of their size, so that the distance of two is a whole number of them, though
    // they belong to different arrays.
    const int64_t distance =
        held == 0 ? 0 : reinterpret_cast<intptr_t>(values) - reinterpret_cast<intptr_t>(origin_);
    parts_.push_back({rows, first, distance / static_cast<int64_t>(sizeof(float))});
    first += rows;
  }
}

bool LocalTable::assign(int64_t id, size_t& partition, int64_t& local) const {
  const auto count = static_cast<int64_t>(parts_.size());
  if (strategy_ == PartitionStrategy::kMod) {
    partition = static_cast<size_t>(id % count);
    local = id / count;
  } else if (counted_) {
    const auto after = std::upper_bound(parts_.begin(), parts_.end(), id,
                                        [](int64_t i, const Part& part) { return i < part.first; });
    partition = static_cast<size_t>(after - parts_.begin()) - 1;
    local = id - parts_[partition].first;
  } else {
    const int64_t each = rows() / count, larger = rows() % count;
    const int64_t in_larger = larger * (each + 1);
    if (id >= rows()) return false;
    const int64_t begin = id < in_larger ? 0 : in_larger, size = id < in_larger ? each + 1 : each;
    partition = static_cast<size_t>((id < in_larger ? 0 : larger) + (id - begin) / size);
    local = (id - begin) % size;
  }
  return true;
}

bool LocalTable::find(int64_t id, Place& place) const {
  size_t partition = 0;
  int64_t local = id;
  if (id < 0) return false;
  if (parts_.size() > 1 && !assign(id, partition, local)) return false;
  const Part& part = parts_[partition];
  if (local >= part.rows) return false;
  place = {part.first + local, part.offset + local * dim_};
  return true;
}

}  // namespace embers
