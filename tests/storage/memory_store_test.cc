#include <numeric>

#include "storage/key_column.h"
#include "storage/pages.h"
#include "storage/row_index.h"
#include "storage/row_slabs.h"
#include "tests/storage/store_contract.h"
#include "tests/storage/store_testing.h"

namespace embers::storage {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, StoreContract, testing::Values(StoreFactory{"memory", make_memory_store}));

TEST(RowSlabs, RowsStayWhereTheyAreAndHoldTheirValues) {
  for (const size_t floats : {1, 3, 17, 1000, 300'000, 600'000}) {
    RowSlabs slabs(floats);
    const auto rows = static_cast<uint32_t>(3 * kHugePage / (floats * sizeof(float)) + 5);
    std::vector<float*> places;
    for (uint32_t r = 0; r < rows; ++r) {
      places.push_back(slabs.append());
      places.back()[0] = places.back()[floats - 1] = static_cast<float>(r);
    }
    for (uint32_t r = 0; r < rows; ++r) {
      ASSERT_EQ(slabs.row(r), places[r]);
      ASSERT_EQ(places[r][0], static_cast<float>(r));
      ASSERT_EQ(places[r][floats - 1], static_cast<float>(r));
    }
  }
}

TEST(RowSlabs, ContiguousRowsFollowOneAnother) {
  RowSlabs slabs(100'000);  // 5 rows a slab
  for (int r = 0; r < 12; ++r) slabs.append();
  EXPECT_EQ(slabs.contiguous(0), 5u);
  EXPECT_EQ(slabs.contiguous(4), 1u);
  EXPECT_EQ(slabs.contiguous(5), 5u);
  EXPECT_EQ(slabs.row(8), slabs.row(5) + 3 * 100'000);
}

TEST(RowSlabs, ASmallTableIsNotChargedAWholeSlab) {
  RowSlabs slabs(16);
  EXPECT_EQ(slabs.resident_bytes(), 0u);
  slabs.append();
  EXPECT_EQ(slabs.resident_bytes(), 4096u);
}

TEST(RowSlabs, FullSlabsAreChargedWhole) {
  RowSlabs slabs(16);
  for (size_t r = 0; r <= kHugePage / 64; ++r) slabs.append();
  EXPECT_EQ(slabs.resident_bytes(), 2 * kHugePage);
}

TEST(Pages, HugeOnesAreAlignedAndZeroed) {
  std::vector<Pages> all;
  for (int i = 0; i < 5; ++i) {
    all.emplace_back(kHugePage, true);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back().data()) % kHugePage, 0u);
    EXPECT_EQ(all.back().data()[kHugePage - 1], std::byte{0});
  }
}

TEST(Pages, MovingLeavesNothingBehind) {
  Pages from(4096, false);
  std::byte* at = from.data();
  Pages to = std::move(from);
  EXPECT_EQ(to.data(), at);
  EXPECT_EQ(from.data(), nullptr);  // NOLINT: what moving promises
}

// Keys whose whole hashes are equal are told apart by comparison.
TEST(RowIndex, EqualHashesAreComparedByTheCaller) {
  RowIndex index;
  const auto hash_of = [](uint32_t) { return uint64_t{42}; };
  for (int i = 0; i < 5; ++i) index.append(42, hash_of);
  for (uint32_t row = 0; row < 5; ++row)
    EXPECT_EQ(index.find(42, [&](uint32_t candidate) { return candidate == row; }), row);
  EXPECT_EQ(index.find(42, [](uint32_t) { return false; }), RowIndex::kNone);
}

TEST(RowIndex, HashesThatDifferInOneHalfOnlyAreDifferent) {
  RowIndex index;
  const std::vector<uint64_t> hashes{7, 7 | uint64_t{1} << 32, 7 | uint64_t{1} << 63, 8};
  for (const uint64_t hash : hashes) index.append(hash, [&](uint32_t row) { return hashes[row]; });
  for (uint32_t row = 0; row < hashes.size(); ++row)
    EXPECT_EQ(index.find(hashes[row], [](uint32_t) { return true; }), row);
}

TEST(RowIndex, FindsEverythingAfterGrowing) {
  RowIndex index;
  const auto hash_of = [](uint32_t row) { return hash_key(int64_t{row}); };
  constexpr uint32_t kRows = 500'000;
  for (uint32_t row = 0; row < kRows; ++row) index.append(hash_of(row), hash_of);
  for (uint32_t row = 0; row < kRows; ++row)
    ASSERT_EQ(index.find(hash_of(row), [&](uint32_t candidate) { return candidate == row; }), row);
  EXPECT_LE(index.resident_bytes(), kRows * 8 * 3);
  EXPECT_EQ(index.find(hash_of(kRows), [](uint32_t) { return false; }), RowIndex::kNone);
}

TEST(KeyColumn, ViewsOfStringKeysBeginAnywhere) {
  KeyColumn column(KeyKind::kBytes);
  const Keys keys(std::vector<std::string>{"a", "", "bcd", "ef"});
  for (size_t i = 0; i < keys.size(); ++i) column.push_back_from(keys, i);
  const KeysView view = column.view(1, 3);
  ASSERT_EQ(view.size(), 3u);
  EXPECT_EQ(view.bytes_at(0), "");
  EXPECT_EQ(view.bytes_at(1), "bcd");
  EXPECT_EQ(view.bytes_at(2), "ef");
  EXPECT_EQ(view.bytes, "bcdef");
}

// A scan never shows a chunk that spans two slabs, and loses no row between them.
TEST(MemoryStore, AScanCrossesSlabs) {
  const auto store = make_memory_store();
  const TableSpec table = spec("t", 100'000);  // 5 rows a slab
  store->add_table(table, {});
  for (int64_t key = 0; key < 12; ++key)
    store->add_if_absent(0, ints({key}), std::vector<float>(table.dim, static_cast<float>(key)));
  std::vector<float> firsts;
  for (uint64_t cursor = 0; cursor != Store::kScanEnd;)
    cursor = store->scan(0, cursor, 100, [&](KeysView keys, std::span<const float> values) {
      ASSERT_EQ(values.size(), keys.size() * table.dim);
      for (size_t i = 0; i < keys.size(); ++i) firsts.push_back(values[(i + 1) * table.dim - 1]);
    });
  std::vector<float> expected(12);
  std::iota(expected.begin(), expected.end(), 0.0f);
  EXPECT_EQ(firsts, expected);
}

}  // namespace
}  // namespace embers::storage
