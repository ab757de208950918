// From ids to unique rows: packed, sorted, found; against the same one id after another.
#include "model/lookup/kernels/unique_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <vector>

namespace embers {
namespace {

struct Batch {
  std::vector<int64_t> row, offset;
  std::vector<float> weight, scale, norm;  // each may be empty
  int64_t width = 0;                       // without offsets

  size_t bags() const { return offset.empty() ? row.size() / static_cast<size_t>(width) : offset.size() - 1; }
  int32_t bag_of(size_t id) const {
    if (offset.empty()) return static_cast<int32_t>(id / static_cast<size_t>(width));
    const auto after = std::upper_bound(offset.begin(), offset.end(), static_cast<int64_t>(id));
    return static_cast<int32_t>(after - offset.begin()) - 1;
  }
  IdShare share_of(size_t id) const {
    const int32_t bag = bag_of(id);
    const float of_bag = scale.empty() ? 1 : scale[static_cast<size_t>(bag)];
    return {bag, weight.empty() ? of_bag : of_bag * weight[id]};
  }
};

const float* data(const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); }

template <class Row>
void expect_unique_rows(const Batch& batch, int64_t rows) {
  const size_t ids = batch.row.size();
  const std::vector<Row> row(batch.row.begin(), batch.row.end());
  const WordLayout layout{static_cast<unsigned>(std::bit_width(std::max(ids, batch.bags() + 1)))};
  Scratch<uint32_t> counts, begins;
  const RadixSort sort(ids, layout.shift(),
                       layout.shift() + static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(rows))),
                       counts);
  std::vector<uint64_t> words(ids), other(ids);
  std::vector<IdShare> of_ids(ids), shares(ids);
  const bool weighted = !batch.weight.empty(), clips = !batch.norm.empty();
  pack_ids(RaggedRows<Row>{row, batch.offset, batch.width, data(batch.weight), data(batch.scale),
                           data(batch.norm)},
           layout, sort, words, weighted ? of_ids.data() : nullptr, begins);
  const auto sorted = sort.sort(words, other);
  std::vector<uint32_t> begin(ids + 1), clipped(ids), kept(ids);
  std::vector<int64_t> unique(ids);
  UniqueRows found{begin.data(), unique.data(), shares.data(), clips ? clipped.data() : nullptr,
                   clips ? kept.data() : nullptr};
  found.find(sorted, layout, weighted ? of_ids.data() : nullptr, data(batch.scale));

  std::vector<size_t> order(ids);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t id) { return batch.row[id]; });
  std::vector<int64_t> expected_rows;
  std::vector<uint32_t> expected_begin, expected_clipped, expected_kept;
  for (size_t i = 0; i < ids; ++i) {
    const size_t id = order[i];
    const IdShare share = batch.share_of(id);
    ASSERT_EQ(shares[i].bag, share.bag) << "id " << id << " of " << ids;
    ASSERT_EQ(shares[i].factor, share.factor) << "id " << id << " of " << ids;
    if (i > 0 && batch.row[id] == batch.row[order[i - 1]]) continue;
    const auto number = static_cast<uint32_t>(expected_rows.size());
    if (clips) (batch.norm[id] != 0 ? expected_clipped : expected_kept).push_back(number);
    expected_rows.push_back(batch.row[id]);
    expected_begin.push_back(static_cast<uint32_t>(i));
  }
  expected_begin.push_back(static_cast<uint32_t>(ids));
  ASSERT_EQ(found.count, expected_rows.size());
  EXPECT_EQ(std::vector(unique.begin(), unique.begin() + static_cast<ptrdiff_t>(found.count)), expected_rows);
  EXPECT_EQ(std::vector(begin.begin(), begin.begin() + static_cast<ptrdiff_t>(found.count) + 1),
            expected_begin);
  if (!clips) return;
  ASSERT_EQ(found.clipped_count, expected_clipped.size());
  clipped.resize(expected_clipped.size());
  kept.resize(expected_kept.size());
  EXPECT_EQ(clipped, expected_clipped);
  EXPECT_EQ(kept, expected_kept);
}

// Ragged where `width` is 0, with empty bags, one of them the last.
Batch make_batch(size_t ids, int64_t rows, int64_t width, bool weighted, bool scaled, bool clips,
                 std::mt19937& random) {
  Batch batch;
  batch.width = width;
  for (size_t i = 0; i < ids; ++i) {
    const auto draw = static_cast<int64_t>(random()) % rows;
    batch.row.push_back(random() % 2 == 0 ? draw : draw % 5 % rows);  // some often
    if (weighted) batch.weight.push_back(0.25f * static_cast<float>(random() % 8));
    if (clips) batch.norm.push_back(batch.row.back() % 3 == 0 ? 0 : 1.5f);
  }
  if (width == 0) {
    batch.offset = {0};
    for (size_t p = 0; p < ids;) {
      p = std::min(ids, p + random() % 6);
      batch.offset.push_back(static_cast<int64_t>(p));
    }
    batch.offset.push_back(static_cast<int64_t>(ids));
  }
  for (size_t b = 0; scaled && b < batch.bags(); ++b)
    batch.scale.push_back(0.5f + 0.125f * static_cast<float>(random() % 4));
  return batch;
}

TEST(UniqueRows, AreThoseOfTheIdsInOrderWithTheirSharesWhateverTheBatchIsLike) {
  std::mt19937 random(3);
  for (const size_t ids : {0, 1, 2, 7, 8, 9, 10, 16, 17, 25, 255, 256, 257, 511, 512, 513, 1030, 5000})
    for (const int64_t rows : {1, 2, 100, 1000, 70'000, 200'000})
      for (const int64_t width : {0, 1, 3})
        for (const unsigned has : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
          const size_t count =
              width == 0 ? ids : ids / static_cast<size_t>(width) * static_cast<size_t>(width);
          const Batch batch = make_batch(count, rows, width, has & 1, has & 2, has & 4, random);
          SCOPED_TRACE(testing::Message()
                       << count << " ids, " << rows << " rows, width " << width << ", has " << has);
          expect_unique_rows<int64_t>(batch, rows);
          expect_unique_rows<int32_t>(batch, rows);
          if (testing::Test::HasFailure()) return;
        }
}

}  // namespace
}  // namespace embers
