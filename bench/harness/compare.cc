#include "bench/harness/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/errors.h"

namespace embers {

namespace {

// Fails unless none is further from the other than farthest * (size + its own size).
void check(const std::string& what, const SideResult& a, const SideResult& b, double farthest, double size) {
  if (a.values.size() != b.values.size())
    fail(ErrorCode::kInternal, "{}: {} has {} numbers, {} has {}", what, a.side, a.values.size(), b.side,
         b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i], y = b.values[i];
    if (!(std::abs(x - y) <= farthest * (size + std::abs(x))))
      fail(ErrorCode::kInternal, "{}: number {} is {} with {}, but {} with {}", what, i, x, a.side, y,
           b.side);
  }
}

double root_mean_square(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += double{x} * x;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

struct Sorted {
  std::vector<int64_t> rows;
  std::vector<float> values;
};

Sorted sorted(const SideRows& side) {
  std::vector<size_t> order(side.rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return side.rows[a] < side.rows[b]; });
  const size_t dim = order.empty() ? 0 : side.values.size() / order.size();
  Sorted result;
  result.values.reserve(side.values.size());
  for (const size_t i : order) {
    result.rows.push_back(side.rows[i]);
    const auto row = side.values.subspan(i * dim, dim);
    result.values.insert(result.values.end(), row.begin(), row.end());
  }
  return result;
}

}  // namespace

void check_equal(const std::string& what, const SideResult& a, const SideResult& b, double farthest) {
  check(what, a, b, farthest, 1);
}

void check_close(const std::string& what, const SideResult& a, const SideResult& b, double farthest) {
  check(what, a, b, farthest, root_mean_square(a.values));
}

void check_close(const std::string& what, const SideRows& a, const SideRows& b, double farthest) {
  const Sorted x = sorted(a), y = sorted(b);
  const auto [one, other] = std::mismatch(x.rows.begin(), x.rows.end(), y.rows.begin(), y.rows.end());
  if (one != x.rows.end() || other != y.rows.end())
    fail(ErrorCode::kInternal, "{}: {} has {} rows, {} has {}; row {} is not the same", what, a.side,
         x.rows.size(), b.side, y.rows.size(), one != x.rows.end() ? *one : *other);
  check(what, {a.side, x.values}, {b.side, y.values}, farthest, root_mean_square(x.values));
}

uint64_t checksum(std::span<const float> values) {
  uint64_t sum = 0;
  for (const float value : values) sum = (sum ^ std::bit_cast<uint32_t>(value)) * 0x9E3779B97F4A7C15 + 1;
  return sum;
}

}  // namespace embers
