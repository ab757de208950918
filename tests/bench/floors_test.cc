#include "bench/engine/floors.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

constexpr size_t kPlaced = 21;

// Rows with their slots, apart from one another and in another order than their gradients.
struct PlacedRows {
  explicit PlacedRows(size_t dim) : dim(dim), floats(kPlaced * 3 * dim), grads(kPlaced * dim) {
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = 1 + static_cast<float>(i) * 0x1p-12f;
    for (size_t i = 0; i < grads.size(); ++i) grads[i] = 100 + static_cast<float>(i % 101);
    for (size_t i = 0; i < kPlaced; ++i) places.push_back({floats.data() + row_of(i) * 3 * dim, &line});
  }
  static size_t row_of(size_t i) { return i * 8 % kPlaced; }

  size_t dim;
  std::vector<float> floats, grads;
  std::byte line{1};
  std::vector<Place> places;
};

class Floors : public testing::TestWithParam<size_t> {};

TEST_P(Floors, PullsCopyWholeRows) {
  const PlacedRows rows(GetParam());
  for (const Ahead& ahead : ways_ahead()) {
    SCOPED_TRACE(name(ahead));
    std::vector<float> out(kPlaced * rows.dim);
    EXPECT_EQ(pull_floor(rows.places, rows.dim, ahead, out.data()), kPlaced);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], rows.places[i / rows.dim].row[i % rows.dim]) << i;
  }
}

TEST_P(Floors, PushesChangeAllOfRowsAndSlots) {
  for (const PushWay way : kPushWays)
    for (const Ahead& ahead : ways_ahead()) {
      SCOPED_TRACE(name(ahead) + name(way));
      PlacedRows rows(GetParam());
      const PlacedRows before(GetParam());
      push_floor(rows.places, rows.dim, ahead, way, rows.grads.data());
      for (size_t i = 0; i < kPlaced; ++i)
        for (size_t k = 0; k < rows.dim; ++k) {
          const float *const now = rows.places[i].row + k, *const then = before.places[i].row + k;
          const float grad = rows.grads[i * rows.dim + k];
          const float m = then[rows.dim] + (grad - then[rows.dim]) * 0.1f;
          const float v = then[2 * rows.dim] + (grad - then[2 * rows.dim]) * 0.001f;
          ASSERT_FLOAT_EQ(now[rows.dim], m) << i << ", " << k;
          ASSERT_FLOAT_EQ(now[2 * rows.dim], v) << i << ", " << k;
          ASSERT_NE(now[0], then[0]) << i << ", " << k;
          ASSERT_FLOAT_EQ(now[0], then[0] - 1e-6f * m) << i << ", " << k;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Dims, Floors, testing::Values(4, 16, 64, 128));

}  // namespace
}  // namespace embers
