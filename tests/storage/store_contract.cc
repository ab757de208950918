#include "tests/storage/store_contract.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;

struct Gathered {
  std::vector<float> rows;
  std::vector<uint8_t> found;
  size_t count;
};

// Rows that are not found read as -1.
Gathered gather(Store& store, TableId table, const Keys& keys, size_t dim) {
  Gathered result{std::vector<float>(keys.size() * dim, -1), std::vector<uint8_t>(keys.size(), 7), 0};
  result.count = store.gather(table, keys, result.rows, result.found);
  return result;
}

std::map<std::string, std::vector<float>> scan_all(Store& store, TableId table, size_t limit) {
  std::map<std::string, std::vector<float>> all;
  for (uint64_t cursor = 0; cursor != Store::kScanEnd;) {
    cursor = store.scan(table, cursor, limit, [&](KeysView keys, std::span<const float> values) {
      EXPECT_LE(keys.size(), limit);
      ASSERT_GT(keys.size(), 0u);
      const size_t width = values.size() / keys.size();
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto row = values.subspan(i * width, width);
        EXPECT_TRUE(all.emplace(to_string(keys, i), std::vector<float>(row.begin(), row.end())).second)
            << "seen twice";
      }
    });
  }
  return all;
}

using Rows = std::vector<float>;

TEST_P(StoreContract, AnEmptyTableFindsNothingAndLeavesTheOutputAlone) {
  store_->add_table(spec("t", 2), {});
  const Gathered got = gather(*store_, 0, ints({5, 6}), 2);
  EXPECT_EQ(got.count, 0u);
  EXPECT_EQ(got.found, (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(got.rows, (Rows{-1, -1, -1, -1}));
  EXPECT_EQ(store_->rows(0), 0u);
}

TEST_P(StoreContract, ARowThatWasAddedIsGathered) {
  store_->add_table(spec("t", 2), {});
  EXPECT_EQ(store_->add_if_absent(0, ints({5, 6}), Rows{1, 2, 3, 4}), 2u);
  const Gathered got = gather(*store_, 0, ints({6, 7, 5}), 2);
  EXPECT_EQ(got.count, 2u);
  EXPECT_EQ(got.found, (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(got.rows, (Rows{3, 4, -1, -1, 1, 2}));
  EXPECT_EQ(store_->rows(0), 2u);
}

TEST_P(StoreContract, AKeyMayBeGatheredSeveralTimesAtOnce) {
  store_->add_table(spec("t", 1), {});
  store_->add_if_absent(0, ints({5}), Rows{9});
  const Gathered got = gather(*store_, 0, ints({5, 5, 4, 5}), 1);
  EXPECT_EQ(got.count, 3u);
  EXPECT_EQ(got.rows, (Rows{9, 9, -1, 9}));
}

TEST_P(StoreContract, NoKeysAreAnswered) {
  store_->add_table(spec("t", 3), Rows{1});
  EXPECT_EQ(gather(*store_, 0, ints({}), 3).count, 0u);
  EXPECT_EQ(store_->add_if_absent(0, ints({}), {}), 0u);
  store_->update(0, ints({}), {}, [](auto, auto, auto) { FAIL() << "no row to update"; });
  store_->restore(0, ints({}), {});
  EXPECT_EQ(store_->rows(0), 0u);
}

TEST_P(StoreContract, AddingAKeyAgainKeepsItsFirstRow) {
  store_->add_table(spec("t", 1), {});
  store_->add_if_absent(0, ints({5}), Rows{1});
  EXPECT_EQ(store_->add_if_absent(0, ints({5, 6}), Rows{2, 3}), 1u);
  EXPECT_EQ(gather(*store_, 0, ints({5, 6}), 1).rows, (Rows{1, 3}));
}

TEST_P(StoreContract, AKeyTwiceInOneAddGetsItsFirstValues) {
  store_->add_table(spec("t", 1), {});
  EXPECT_EQ(store_->add_if_absent(0, ints({5, 5}), Rows{1, 2}), 1u);
  EXPECT_EQ(gather(*store_, 0, ints({5}), 1).rows, (Rows{1}));
}

TEST_P(StoreContract, AddSkipsTheKeysThatTheCallerFound) {
  store_->add_table(spec("t", 1), {});
  EXPECT_EQ(store_->add_if_absent(0, ints({5, 6, 7}), Rows{1, 2, 3}, std::vector<uint8_t>{1, 0, 1}), 1u);
  EXPECT_EQ(gather(*store_, 0, ints({5, 6, 7}), 1).found, (std::vector<uint8_t>{0, 1, 0}));
}

TEST_P(StoreContract, GatherCreatesTheRowsThatAreNotThere) {
  for (const KeyKind kind : {KeyKind::kInt64, KeyKind::kBytes}) {
    const bool is_int = kind == KeyKind::kInt64;
    const TableId table = is_int ? 0 : 1;
    store_->add_table(spec(is_int ? "ints" : "strings", 2, kind), Rows{0.5f});
    store_->add_if_absent(table, is_int ? ints({5}) : strings({"5"}), Rows{1, 2});
    const Keys keys = is_int ? ints({4, 5, 6, 4}) : strings({"4", "5", "6", "4"});
    Rows rows(8, -1);
    std::vector<uint8_t> found(4, 7);
    size_t calls = 0;
    const auto first_values = [&](std::span<float> out, std::span<const uint8_t> there) {
      ++calls;
      EXPECT_EQ(std::vector<uint8_t>(there.begin(), there.end()), (std::vector<uint8_t>{0, 1, 0, 0}));
      for (size_t i = 0; i < out.size(); ++i)
        if (!there[i / 2]) out[i] = 10 + static_cast<float>(i);
    };
    // A key that is there twice has the values of its first place.
    EXPECT_EQ(store_->gather_or_create(table, keys, first_values, rows, found), 4u);
    EXPECT_EQ(rows, (Rows{10, 11, 1, 2, 14, 15, 10, 11}));
    EXPECT_EQ(found, (std::vector<uint8_t>{1, 1, 1, 1}));
    EXPECT_EQ(gather(*store_, table, keys, 2).rows, rows);
    EXPECT_EQ(store_->gather_or_create(table, keys, first_values, rows, found), 4u);
    EXPECT_EQ(calls, 1u);
    EXPECT_EQ(store_->rows(table), 3u);
    EXPECT_EQ(scan_all(*store_, table, 10).at(is_int ? "6" : to_string(keys, 2)), (Rows{14, 15, 0.5f}));
  }
}

// As a push does after a pull.
TEST_P(StoreContract, RowsThatAGatherCreatedAreUpdated) {
  store_->add_table(spec("t", 1), {});
  const Keys keys = ints({3, 1, 2});
  Rows rows(3);
  std::vector<uint8_t> found(3);
  store_->gather_or_create(
      0, keys, [](std::span<float> out, auto) { std::iota(out.begin(), out.end(), 1.0f); }, rows, found);
  for (int i = 0; i < 2; ++i)
    store_->update(0, keys, Rows{10, 20, 30}, [](auto row, auto, auto grad) { row[0] += grad[0]; });
  EXPECT_EQ(gather(*store_, 0, ints({1, 2, 3}), 1).rows, (Rows{42, 63, 21}));
}

TEST_P(StoreContract, Int64KeysMayBeAnyNumber) {
  store_->add_table(spec("t", 1), {});
  const Keys keys = ints({0, -1, 1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                          int64_t{1} << 32, (int64_t{1} << 32) + 1});
  const Rows values{0, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(store_->add_if_absent(0, keys, values), 7u);
  EXPECT_EQ(gather(*store_, 0, keys, 1).rows, values);
}

TEST_P(StoreContract, StringKeysMayBeAnyBytes) {
  store_->add_table(spec("t", 1, KeyKind::kBytes), {});
  const Keys keys = strings({"", std::string(1, '\0'), std::string(2, '\0'), "a", "ab", "b", "\xff\xfe", " a",
                             "a\n", std::string(240, 'x'), std::string(240, 'x').replace(239, 1, "y")});
  Rows values(keys.size());
  std::iota(values.begin(), values.end(), 0.0f);
  EXPECT_EQ(store_->add_if_absent(0, keys, values), keys.size());
  EXPECT_EQ(gather(*store_, 0, keys, 1).rows, values);
  EXPECT_EQ(gather(*store_, 0, strings({"aa", "x", "\xff"}), 1).count, 0u);
}

TEST_P(StoreContract, TablesAreApart) {
  store_->add_table(spec("a", 1), {});
  store_->add_table(spec("b", 2), {});
  store_->add_table(spec("c", 1, KeyKind::kBytes), {});
  store_->add_if_absent(0, ints({5}), Rows{1});
  store_->add_if_absent(1, ints({5}), Rows{2, 3});
  store_->add_if_absent(2, strings({"5"}), Rows{4});
  EXPECT_EQ(gather(*store_, 0, ints({5}), 1).rows, (Rows{1}));
  EXPECT_EQ(gather(*store_, 1, ints({5}), 2).rows, (Rows{2, 3}));
  EXPECT_EQ(gather(*store_, 2, strings({"5"}), 1).rows, (Rows{4}));
}

TEST_P(StoreContract, SlotsBeginAtTheirFirstValues) {
  store_->add_table(spec("t", 2), Rows{0.5f, 0.25f, 8});
  store_->add_if_absent(0, ints({5}), Rows{1, 2});
  EXPECT_EQ(scan_all(*store_, 0, 10).at("5"), (Rows{1, 2, 0.5f, 0.25f, 8}));
}

TEST_P(StoreContract, UpdateGivesTheKernelRowSlotsAndGradient) {
  store_->add_table(spec("t", 2), Rows{10});
  store_->add_if_absent(0, ints({5, 6}), Rows{1, 2, 3, 4});
  store_->update(0, ints({6}), Rows{100, 200}, [](auto row, auto slots, auto grad) {
    ASSERT_EQ(row.size(), 2u);
    ASSERT_EQ(slots.size(), 1u);
    ASSERT_EQ(grad.size(), 2u);
    row[0] += grad[0];
    row[1] += grad[1];
    slots[0] += 1;
  });
  EXPECT_EQ(scan_all(*store_, 0, 10).at("5"), (Rows{1, 2, 10}));
  EXPECT_EQ(scan_all(*store_, 0, 10).at("6"), (Rows{103, 204, 11}));
}

TEST_P(StoreContract, UpdatesOfOneKeyFollowTheirOrder) {
  store_->add_table(spec("t", 1), {});
  store_->add_if_absent(0, ints({5}), Rows{1});
  store_->update(0, ints({5, 5}), Rows{3, 4},
                 [](auto row, auto, auto grad) { row[0] = row[0] * 10 + grad[0]; });
  EXPECT_EQ(gather(*store_, 0, ints({5}), 1).rows, (Rows{134}));
}

TEST_P(StoreContract, UpdateOfAMissingKeyNamesItAndChangesNothing) {
  store_->add_table(spec("colors", 1, KeyKind::kBytes), {});
  store_->add_if_absent(0, strings({"red", "blue"}), Rows{1, 2});
  expect_error(ErrorCode::kMissingKey, {"colors", "green"}, [&] {
    store_->update(0, strings({"red", "green", "blue"}), Rows{1, 1, 1},
                   [](auto row, auto, auto) { row[0] = 0; });
  });
  EXPECT_EQ(gather(*store_, 0, strings({"red", "blue"}), 1).rows, (Rows{1, 2}));
  EXPECT_EQ(store_->rows(0), 2u);
}

TEST_P(StoreContract, RestoreSetsRowsAndSlotsOfOldAndNewKeys) {
  store_->add_table(spec("t", 1), Rows{10});
  store_->add_if_absent(0, ints({5}), Rows{1});
  store_->restore(0, ints({5, 6}), Rows{2, 20, 3, 30});
  EXPECT_EQ(store_->rows(0), 2u);
  EXPECT_EQ(scan_all(*store_, 0, 10), (std::map<std::string, Rows>{{"5", {2, 20}}, {"6", {3, 30}}}));
}

TEST_P(StoreContract, AKeyRestoredTwiceHasItsLastValues) {
  store_->add_table(spec("t", 1), {});
  store_->restore(0, ints({5, 5}), Rows{1, 2});
  EXPECT_EQ(store_->rows(0), 1u);
  EXPECT_EQ(gather(*store_, 0, ints({5}), 1).rows, (Rows{2}));
}

TEST_P(StoreContract, ScanOfAnEmptyTableVisitsNothing) {
  store_->add_table(spec("t", 1), {});
  EXPECT_EQ(store_->scan(0, 0, 10, [](auto, auto) { FAIL() << "nothing to visit"; }), Store::kScanEnd);
}

TEST_P(StoreContract, ScanVisitsEveryRowOnceWhateverTheLimit) {
  store_->add_table(spec("t", 1, KeyKind::kBytes), Rows{7});
  std::map<std::string, Rows> expected;
  for (int i = 0; i < 25; ++i) {
    const std::string key(static_cast<size_t>(i), 'k');
    store_->add_if_absent(0, strings({key}), Rows{static_cast<float>(i)});
    expected[key] = {static_cast<float>(i), 7};
  }
  for (const size_t limit : {1, 7, 25, 26, 1000}) EXPECT_EQ(scan_all(*store_, 0, limit), expected) << limit;
}

TEST_P(StoreContract, ScanGoesInOrderOfCreation) {
  store_->add_table(spec("t", 1), {});
  store_->add_if_absent(0, ints({9, -3}), Rows{1, 2});
  store_->add_if_absent(0, ints({9, 4}), Rows{1, 3});
  std::vector<int64_t> seen;
  for (uint64_t cursor = 0; cursor != Store::kScanEnd;)
    cursor = store_->scan(0, cursor, 2, [&](KeysView keys, auto) {
      seen.insert(seen.end(), keys.ints.begin(), keys.ints.end());
    });
  EXPECT_EQ(seen, (std::vector<int64_t>{9, -3, 4}));
}

TEST_P(StoreContract, ScanFromBeyondTheEndVisitsNothing) {
  store_->add_table(spec("t", 1), {});
  store_->add_if_absent(0, ints({1}), Rows{1});
  for (const uint64_t cursor : {uint64_t{1}, uint64_t{1} << 40, Store::kScanEnd})
    EXPECT_EQ(store_->scan(0, cursor, 1, [](auto, auto) { FAIL(); }), Store::kScanEnd);
}

TEST_P(StoreContract, AScanOfNoRowsAtATimeIsRefused) {
  store_->add_table(spec("t", 1), {});
  expect_error(ErrorCode::kInvalid, {"'t'"}, [&] { store_->scan(0, 0, 0, [](auto, auto) {}); });
}

// Grows the index and the rows many times over, against a map.
TEST_P(StoreContract, BehavesAsAMapUnderRandomUse) {
  constexpr size_t kDim = 3;
  store_->add_table(spec("t", kDim), Rows{0.5f});
  std::map<int64_t, Rows> model;
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    Keys keys;
    Rows values;
    for (int i = 0; i < 100; ++i) {
      const auto key = static_cast<int64_t>(random() % 5000) * 1000003;
      keys.push_back(key);
      for (size_t d = 0; d < kDim; ++d) values.push_back(static_cast<float>(random() % 1000));
      const Rows row(values.end() - kDim, values.end());
      model.try_emplace(key, Rows{row[0], row[1], row[2], 0.5f});
    }
    store_->add_if_absent(0, keys, values);
    store_->update(0, keys, values, [](auto row, auto slots, auto grad) {
      for (size_t d = 0; d < row.size(); ++d) row[d] -= grad[d] / 4;
      slots[0] += 1;
    });
    for (size_t i = 0; i < keys.size(); ++i) {
      Rows& row = model.at(keys.view().ints[i]);
      for (size_t d = 0; d < kDim; ++d) row[d] -= values[i * kDim + d] / 4;
      row[kDim] += 1;
    }
  }
  ASSERT_EQ(store_->rows(0), model.size());
  std::map<std::string, Rows> expected;
  for (const auto& [key, row] : model) expected[std::to_string(key)] = row;
  EXPECT_EQ(scan_all(*store_, 0, 64), expected);
}

TEST_P(StoreContract, ResidentBytesGrowWithTheRows) {
  store_->add_table(spec("t", 16), Rows(32));
  const uint64_t before = store_->resident_bytes();
  Keys keys;
  for (int64_t i = 0; i < 20000; ++i) keys.push_back(i);
  store_->add_if_absent(0, keys, Rows(keys.size() * 16));
  EXPECT_GE(store_->resident_bytes() - before, 20000u * (16 + 32) * sizeof(float));
}

TEST_P(StoreContract, ATableWithoutDimIsRefused) {
  expect_error(ErrorCode::kInvalid, {"'flat'", "dim"}, [&] { store_->add_table(spec("flat", 0), {}); });
}

TEST_P(StoreContract, ATableCannotBeAddedTwice) {
  store_->add_table(spec("t", 1), {});
  expect_error(ErrorCode::kInvalid, {"'t'"}, [&] { store_->add_table(spec("t", 1), {}); });
}

TEST_P(StoreContract, AnUnknownTableIsRefusedByEveryOperation) {
  store_->add_table(spec("t", 1), {});
  Rows row(1);
  std::vector<uint8_t> found(1);
  const auto refused = [](const auto& action) {
    expect_error(ErrorCode::kUnknownTable, {"number 1"}, action);
  };
  refused([&] { store_->gather(1, ints({1}), row, found); });
  refused([&] { store_->add_if_absent(1, ints({1}), row); });
  refused([&] { store_->update(1, ints({1}), row, [](auto, auto, auto) {}); });
  refused([&] { store_->restore(1, ints({1}), row); });
  refused([&] { store_->scan(1, 0, 1, [](auto, auto) {}); });
  refused([&] { store_->rows(1); });
}

TEST_P(StoreContract, KeysOfTheOtherKindAreRefusedByEveryOperation) {
  store_->add_table(spec("numbers", 1), {});
  store_->add_table(spec("words", 1, KeyKind::kBytes), {});
  Rows row(1);
  std::vector<uint8_t> found(1);
  const auto refused = [&](TableId table, const std::string& name, const Keys& keys) {
    const auto expect = [&](const auto& action) {
      expect_error(ErrorCode::kInvalid, {name, "keys"}, action);
    };
    expect([&] { store_->gather(table, keys, row, found); });
    expect([&] { store_->add_if_absent(table, keys, row); });
    expect([&] { store_->update(table, keys, row, [](auto, auto, auto) {}); });
    expect([&] { store_->restore(table, keys, row); });
    EXPECT_EQ(store_->rows(table), 0u);
  };
  refused(0, "'numbers'", strings({"1"}));
  refused(1, "'words'", ints({1}));
}

TEST_P(StoreContract, SpansOfTheWrongSizeAreRefused) {
  store_->add_table(spec("wide", 3), Rows{0});
  const Keys keys = ints({1, 2});
  store_->add_if_absent(0, keys, Rows{1, 2, 3, 4, 5, 6});
  Rows right(6);
  std::vector<uint8_t> flags(2), three(3), one(1);
  const auto refused = [](const auto& action) { expect_error(ErrorCode::kInvalid, {"'wide'"}, action); };
  const auto kernel = [](auto row, auto, auto) { row[0] = 99; };
  for (const size_t wrong : {0, 5, 7}) {
    Rows floats(wrong);
    refused([&] { store_->gather(0, keys, floats, flags); });
    refused([&] { store_->add_if_absent(0, keys, floats); });
    refused([&] { store_->update(0, keys, floats, kernel); });
  }
  refused([&] { store_->gather(0, keys, right, three); });
  refused([&] { store_->gather(0, keys, right, one); });
  refused([&] { store_->add_if_absent(0, keys, right, one); });
  refused([&] { store_->restore(0, keys, right); });  // slots are missing
  EXPECT_EQ(gather(*store_, 0, keys, 3).rows, (Rows{1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace embers::storage
