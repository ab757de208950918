// Tables whose rows are kept as halves.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "schema/partition.h"
#include "storage/apply.h"
#include "storage/memory/memory_table.h"
#include "tests/storage/store_testing.h"

namespace embers::storage {
namespace {

using Rows = std::vector<float>;
constexpr NumberType kHalves[] = {NumberType::kFloat16, NumberType::kBfloat16};

TableSpec halves(NumberType type, Rounding rounding, uint32_t dim, KeyKind kind = KeyKind::kInt64) {
  TableSpec table = spec("t", dim, kind);
  table.number_type = type;
  table.rounding = rounding;
  return table;
}

Rows gather(MemoryTable& table, const Keys& keys, size_t dim) {
  Rows rows(keys.size() * dim, -1);
  std::vector<uint8_t> found(keys.size());
  table.gather(keys, rows, found);
  return rows;
}

void update(MemoryTable& table, const Keys& keys, const Rows& grads, const UpdateKernel& kernel,
            uint64_t step) {
  table.update_rows(keys, grads, rows_kernel(kernel), step);
}

Rows rounded(NumberType type, Rows rows) {
  round_to(type, rows);
  return rows;
}

std::map<int64_t, Rows> scan_all(MemoryTable& table, size_t width) {
  std::map<int64_t, Rows> all;
  for (uint64_t cursor = 0; cursor != Store::kScanEnd;)
    cursor = table.scan(cursor, 3, [&](KeysView keys, std::span<const float> values) {
      ASSERT_EQ(values.size(), keys.size() * width);
      for (size_t i = 0; i < keys.size(); ++i)
        all[keys.ints[i]] = Rows(&values[i * width], &values[i * width] + width);
    });
  return all;
}

TEST(Halves, RowsThatAGatherCreatesReadAsTheyAreKept) {
  for (const NumberType type : kHalves) {
    MemoryTable table(halves(type, Rounding::kNearest, 3), {});
    const Keys keys = ints({7, 8, 7});
    Rows rows(9);
    std::vector<uint8_t> found(3);
    const Rows values{0.1f, 0.2f, 0.3f, 1.1f, 1.2f, 1.3f, 9, 9, 9};
    table.gather_or_create(
        keys, [&](std::span<float> out, auto) { std::copy(values.begin(), values.end(), out.begin()); }, rows,
        found);
    const Rows kept = rounded(type, {0.1f, 0.2f, 0.3f, 1.1f, 1.2f, 1.3f, 0.1f, 0.2f, 0.3f});
    EXPECT_EQ(rows, kept);
    EXPECT_EQ(gather(table, keys, 3), kept);
  }
}

TEST(Halves, RowsAreRoundedAndSlotsAreNot) {
  for (const NumberType type : kHalves)
    for (const uint32_t dim : {1u, 2u, 3u, 8u, 17u, 64u}) {
      const Rows slot_init(dim, 0.1f);
      MemoryTable table(halves(type, Rounding::kNearest, dim), slot_init);
      Rows values(3 * dim);
      for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(i) - 1;
      const Keys keys = ints({5, -6, 7});
      EXPECT_EQ(table.add_if_absent(keys, values, {}), 3u);
      EXPECT_EQ(gather(table, keys, dim), rounded(type, values));
      const auto all = scan_all(table, 2 * dim);
      ASSERT_EQ(all.size(), 3u);
      for (size_t i = 0; i < 3; ++i) {
        Rows expected = rounded(type, Rows(&values[i * dim], &values[i * dim] + dim));
        expected.insert(expected.end(), slot_init.begin(), slot_init.end());
        EXPECT_EQ(all.at(keys.view().ints[i]), expected);
      }
    }
}

// An owner's columns of a row, as part_of() describes them.
TEST(Halves, SomeColumnsAreRoundedAsThoseOfWholeRows) {
  constexpr uint32_t kDim = 10, kOwners = 3;
  const Keys keys = ints({5, -6, 7});
  for (const NumberType type : kHalves) {
    TableSpec spec = halves(type, Rounding::kStochastic, kDim);
    spec.partition = Partition::kEncoding;
    const auto updated = [&](const TableSpec& part, size_t first) {
      MemoryTable table(part, {});
      table.add_if_absent(keys, Rows(keys.size() * part.dim, 1.0f), {});
      Rows grads;
      for (size_t i = 0; i < keys.size(); ++i)
        for (size_t c = 0; c < part.dim; ++c) grads.push_back(0.0001f * static_cast<float>(first + c));
      for (uint64_t step = 1; step <= 20; ++step)
        update(
            table, keys, grads,
            [](std::span<float> row, std::span<float>, std::span<const float> grad) {
              for (size_t c = 0; c < row.size(); ++c) row[c] += grad[c];
            },
            step);
      return gather(table, keys, part.dim);
    };
    const Rows whole = updated(spec, 0);
    EXPECT_NE(whole, Rows(whole.size(), 1.0f));
    for (uint32_t owner = 0; owner < kOwners; ++owner) {
      const TableSpec part = part_of(spec, owner, kOwners);
      const Rows rows = updated(part, part.first_column);
      for (size_t i = 0; i < keys.size(); ++i)
        for (size_t c = 0; c < part.dim; ++c)
          EXPECT_EQ(rows[i * part.dim + c], whole[i * kDim + part.first_column + c]);
    }
  }
}

TEST(Halves, AnUpdateSeesTheRowAndChangesItAndItsSlotsOnly) {
  for (const NumberType type : kHalves)
    for (const uint32_t dim : {1u, 3u, 16u}) {
      MemoryTable table(halves(type, Rounding::kNearest, dim), Rows(2 * dim, 0.0f));
      const Keys keys = strings({"a", "b", "c"});
      MemoryTable texts(halves(type, Rounding::kNearest, dim, KeyKind::kBytes), Rows(2 * dim, 0.0f));
      const Rows first(3 * dim, 0.3f), grads(2 * dim, 0.01f);
      table.add_if_absent(ints({1, 2, 3}), first, {});
      texts.add_if_absent(keys, first, {});
      const auto kernel = [](std::span<float> row, std::span<float> slots, std::span<const float> grad) {
        for (size_t c = 0; c < row.size(); ++c) row[c] += grad[c];
        for (float& slot : slots) slot += 0.7f;
      };
      update(table, ints({1, 3}), grads, kernel, 1);
      update(texts, strings({"a", "c"}), grads, kernel, 1);
      const float once = rounded(type, {0.3f})[0], twice = rounded(type, {once + 0.01f})[0];
      ASSERT_NE(once, twice);
      Rows expected(3 * dim, twice);
      std::fill(expected.begin() + dim, expected.begin() + 2 * dim, once);
      EXPECT_EQ(gather(table, ints({1, 2, 3}), dim), expected);
      EXPECT_EQ(gather(texts, keys, dim), expected);
      const auto all = scan_all(table, 3 * dim);
      for (size_t c = dim; c < 3 * dim; ++c) {
        EXPECT_EQ(all.at(1)[c], 0.7f);
        EXPECT_EQ(all.at(2)[c], 0.0f);
      }
    }
}

TEST(Halves, TakeHalfTheMemoryOfARow) {
  constexpr uint32_t kDim = 64, kRows = 1 << 17;
  std::vector<int64_t> numbers(kRows);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Rows values(size_t{kRows} * kDim, 1.0f);
  MemoryTable whole(spec("t", kDim), {}), half(halves(NumberType::kFloat16, Rounding::kNearest, kDim), {});
  for (MemoryTable* table : {&whole, &half}) table->add_if_absent(ints(numbers), values, {});
  // Either may have a slab ready that is not used yet.
  EXPECT_NEAR(whole.resident_bytes() - half.resident_bytes(), size_t{kRows} * kDim * 2, kHugePage);
}

// Steps of a hundredth of the difference between one half and the next: rounded to nearest, they are lost.
TEST(Halves, StochasticRoundingAddsUpWhatNearestLoses) {
  constexpr int kSteps = 1000;
  constexpr uint32_t kDim = 100;
  for (const NumberType type : kHalves) {
    const float step = type == NumberType::kFloat16 ? 1e-5f : 8e-5f;
    for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
      MemoryTable table(halves(type, rounding, kDim), {});
      table.add_if_absent(ints({1}), Rows(kDim, 1.0f), {});
      for (int i = 1; i <= kSteps; ++i)
        update(
            table, ints({1}), Rows(kDim, step),
            [](auto row, auto, auto grad) {
              for (size_t c = 0; c < row.size(); ++c) row[c] += grad[c];
            },
            static_cast<uint64_t>(i));
      const Rows row = gather(table, ints({1}), kDim);
      const double moved = std::accumulate(row.begin(), row.end(), 0.0) / kDim - 1;
      if (rounding == Rounding::kNearest)
        EXPECT_EQ(moved, 0);
      else
        EXPECT_NEAR(moved, kSteps * step, 0.1 * kSteps * step);
    }
  }
}

TEST(Halves, StochasticRoundingDoesNotDependOnWhatElseIsUpdated) {
  constexpr uint32_t kDim = 5;
  const auto kernel = [](auto row, auto, auto grad) {
    for (size_t c = 0; c < row.size(); ++c) row[c] += grad[c];
  };
  const Rows first(3 * kDim, 0.3f), grads(3 * kDim, 0.00123f);
  const TableSpec table = halves(NumberType::kBfloat16, Rounding::kStochastic, kDim);
  MemoryTable together(table, {}), apart(table, {});
  together.add_if_absent(ints({1, 2, 3}), first, {});
  apart.add_if_absent(ints({3, 1, 2}), first, {});
  for (uint64_t step = 1; step <= 20; ++step) {
    update(together, ints({1, 2, 3}), grads, kernel, step);
    for (const int64_t key : {2, 3, 1}) update(apart, ints({key}), Rows(kDim, 0.00123f), kernel, step);
  }
  const Rows rows = gather(together, ints({1, 2, 3}), kDim);
  EXPECT_EQ(rows, gather(apart, ints({1, 2, 3}), kDim));
  EXPECT_NE(Rows(rows.begin(), rows.begin() + kDim), Rows(rows.begin() + kDim, rows.begin() + 2 * kDim));
}

TEST(Halves, WhatAScanShowsIsRestoredExactly) {
  for (const NumberType type : kHalves) {
    constexpr uint32_t kDim = 3, kWidth = 5;
    const TableSpec of_halves = halves(type, Rounding::kStochastic, kDim);
    MemoryTable table(of_halves, Rows{0.1f, 0.2f}), again(of_halves, Rows{0, 0});
    std::mt19937 random(3);
    std::uniform_real_distribution<float> uniform(-2, 2);
    for (int64_t key = 0; key < 50; ++key)
      table.add_if_absent(ints({key}), Rows{uniform(random), uniform(random), uniform(random)}, {});
    const auto all = scan_all(table, kWidth);
    for (const auto& [key, values] : all) again.restore(ints({key}), values);
    EXPECT_EQ(scan_all(again, kWidth), all);
  }
}

TEST(Halves, ARemovedRowsPlaceIsTakenByANewOneWithItsFirstSlots) {
  MemoryTable table(halves(NumberType::kFloat16, Rounding::kNearest, 3), Rows{0.0f, 0.5f});
  table.add_if_absent(ints({1, 2}), Rows{1, 2, 3, 4, 5, 6}, {});
  update(
      table, ints({1}), Rows{0, 0, 0}, [](auto, auto slots, auto) { slots[0] = slots[1] = 9; }, 1);
  EXPECT_EQ(table.remove(ints({1})), 1u);
  table.add_if_absent(ints({3}), Rows{7, 8, 9}, {});
  EXPECT_EQ(scan_all(table, 5), (std::map<int64_t, Rows>{{2, {4, 5, 6, 0, 0.5f}}, {3, {7, 8, 9, 0, 0.5f}}}));
}

TEST(Halves, AStepBeyondTheLargestHalfStopsThere) {
  MemoryTable table(halves(NumberType::kFloat16, Rounding::kStochastic, 2), {});
  table.add_if_absent(ints({1}), Rows{60000, -60000}, {});
  update(
      table, ints({1}), Rows{30000, -30000},
      [](auto row, auto, auto grad) {
        for (size_t c = 0; c < row.size(); ++c) row[c] += grad[c];
      },
      1);
  EXPECT_EQ(gather(table, ints({1}), 2), (Rows{65504, -65504}));
}

TEST(Halves, ARowThatWouldNotBeFiniteStaysAsItWas) {
  const auto store = make_memory_store();
  const auto optimizer = UpdateRule::make({"adagrad", {{"learning_rate", 1}}});
  store->add_table(halves(NumberType::kBfloat16, Rounding::kStochastic, 2), slot_init(*optimizer, 2));
  store->add_if_absent(0, ints({1, 2}), Rows{0.3f, 0.4f, 0.5f, 0.6f});
  Rows before(4), after(4);
  std::vector<uint8_t> found(2);
  store->gather(0, ints({1, 2}), before, found);
  const LeftOut left_out = apply(*store, 0, *optimizer, {1, 1.0}, ints({1, 2}), Rows{3e38f, 1, 1, 1});
  store->gather(0, ints({1, 2}), after, found);
  EXPECT_EQ(left_out.rows, 1u);
  EXPECT_EQ(Rows(after.begin(), after.begin() + 2), Rows(before.begin(), before.begin() + 2));
  EXPECT_NE(after[2], before[2]);
}

}  // namespace
}  // namespace embers::storage
