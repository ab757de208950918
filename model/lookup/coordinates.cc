#include "model/lookup/coordinates.h"

#include <fmt/ranges.h>

#include "base/errors.h"

namespace embers {
namespace {

constexpr int64_t kMostBags = int64_t{1} << 31;

int64_t count_bags(std::span<const int64_t> shape) {
  if (shape.size() < 2)
    fail(ErrorCode::kInvalid, "dense_shape [{}] has {} dimensions: sparse ids need at least 2",
         fmt::join(shape, ", "), shape.size());
  int64_t bags = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0)
      fail(ErrorCode::kInvalid, "dense_shape [{}] has a negative dimension", fmt::join(shape, ", "));
    if (d + 1 < shape.size() && (__builtin_mul_overflow(bags, shape[d], &bags) || bags > kMostBags))
      fail(ErrorCode::kInvalid, "dense_shape [{}] has more than 2^31 rows", fmt::join(shape, ", "));
  }
  return bags;
}

int64_t bag_of(std::span<const int64_t> index, std::span<const int64_t> shape) {
  int64_t bag = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (index[d] < 0 || index[d] >= shape[d])
      fail(ErrorCode::kInvalid, "index [{}] is outside the dense_shape [{}]", fmt::join(index, ", "),
           fmt::join(shape, ", "));
    if (d + 1 < shape.size()) bag = bag * shape[d] + index[d];
  }
  return bag;
}

}  // namespace

std::vector<int64_t> bag_offsets(std::span<const int64_t> indices, std::span<const int64_t> dense_shape) {
  const int64_t bags = count_bags(dense_shape);
  const size_t rank = dense_shape.size();
  if (indices.size() % rank != 0)
    fail(ErrorCode::kInvalid, "{} numbers of indices are not a multiple of the rank {}", indices.size(),
         rank);
  std::vector<int64_t> offsets(static_cast<size_t>(bags) + 1);
  int64_t before = 0;
  for (size_t i = 0; i < indices.size(); i += rank) {
    const auto index = indices.subspan(i, rank);
    const int64_t bag = bag_of(index, dense_shape);
    if (bag < before)
      fail(ErrorCode::kInvalid, "index [{}] comes after one of a later row: sort the indices by row",
           fmt::join(index, ", "));
    before = bag;
    ++offsets[static_cast<size_t>(bag) + 1];
  }
  for (size_t b = 1; b < offsets.size(); ++b) offsets[b] += offsets[b - 1];
  return offsets;
}

}  // namespace embers
