#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include "storage/memory/memory_table.h"
#include "storage/memory/page_filler.h"
#include "storage/memory/pages.h"
#include "storage/memory/row_index.h"
#include "storage/memory/row_slabs.h"
#include "storage/rows/key_bytes.h"
#include "storage/rows/key_column.h"
#include "tests/storage/store_contract.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_limit.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;

INSTANTIATE_TEST_SUITE_P(Memory, StoreContract,
                         testing::Values(StoreFactory{"memory", [] { return make_memory_store(); }}));

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

TEST(RowSlabs, OfALargeTableAreFilledAheadAndCharged) {
  PageFiller filler;
  RowSlabs slabs(1, &filler);
  while (slabs.rows() * sizeof(float) <= 16 * kHugePage) *slabs.append() = 1;
  const uint64_t slabs_in_use = (slabs.rows() * sizeof(float) + kHugePage - 1) / kHugePage;
  EXPECT_EQ(slabs.resident_bytes(), (slabs_in_use + 2) * kHugePage) << "one ahead for each eight";
  for (uint32_t row = 0; row < slabs.rows(); ++row) ASSERT_EQ(*slabs.row(row), 1);
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

TEST(KeyBytes, HoldKeysOfAllSizes) {
  KeyBytes keys;
  std::vector<std::string> expected;
  for (uint32_t row = 0; row < 150'000; ++row) {
    expected.push_back(row % 5000 == 7 ? std::string(row * 10, 'x') : "key " + std::to_string(row));
    keys.set(row, expected.back());
  }
  keys.set(3, "again");
  expected[3] = "again";
  for (uint32_t row = 0; row < expected.size(); ++row) ASSERT_EQ(keys.at(row), expected[row]);
}

TEST(MemoryTable, ARemovedRowIsGoneAndItsPlaceTakenAgain) {
  for (const KeyKind kind : {KeyKind::kInt64, KeyKind::kBytes}) {
    MemoryTable table(spec("t", 1, kind), std::vector<float>{9});
    const auto keys = [&](std::vector<int64_t> numbers) {
      if (kind == KeyKind::kInt64) return Keys(numbers);
      std::vector<std::string> texts;
      for (const int64_t n : numbers) texts.push_back(std::to_string(n));
      return Keys(texts);
    };
    const auto scanned = [&] {
      std::map<std::string, std::vector<float>> all;
      for (uint64_t cursor = 0; cursor != Store::kScanEnd;)
        cursor = table.scan(cursor, 2, [&](KeysView k, std::span<const float> values) {
          for (size_t i = 0; i < k.size(); ++i) all[to_string(k, i)] = {values[2 * i], values[2 * i + 1]};
        });
      return all;
    };
    using Rows = std::map<std::string, std::vector<float>>;
    table.add_if_absent(keys({1, 2, 3}), std::vector<float>{1, 2, 3}, {});
    table.restore(keys({2}), std::vector<float>{2, 5});
    EXPECT_EQ(table.remove(keys({2, 7, 2})), 1u);
    EXPECT_EQ(table.rows(), 2u);
    std::vector<float> out(3);
    std::vector<uint8_t> found(3);
    EXPECT_EQ(table.gather(keys({1, 2, 3}), out, found), 2u);
    EXPECT_EQ(found, (std::vector<uint8_t>{1, 0, 1}));
    EXPECT_EQ(scanned(), (Rows{{"1", {1, 9}}, {"3", {3, 9}}}));
    table.add_if_absent(keys({4, 2}), std::vector<float>{4, 6}, {});
    EXPECT_EQ(scanned(), (Rows{{"1", {1, 9}}, {"2", {6, 9}}, {"3", {3, 9}}, {"4", {4, 9}}}));
  }
}

// Batches of all sizes, some longer than the pipeline, of keys that are there and that are not, some
// repeated, after each of several fillings, growing or not.
TEST(MemoryTable, GathersBatchesOfAllSizesAndDims) {
  std::mt19937_64 random(13);
  for (const KeyKind kind : {KeyKind::kInt64, KeyKind::kBytes})
    for (const uint32_t dim : {1, 10, 16, 32, 33, 64, 1000}) {
      MemoryTable table(spec("t", dim, kind), {});
      const auto keys = [&](const std::vector<int64_t>& numbers) {
        if (kind == KeyKind::kInt64) return Keys(numbers);
        std::vector<std::string> texts;
        for (const int64_t n : numbers) texts.push_back("key " + std::to_string(n));
        return Keys(texts);
      };
      const auto value = [&](int64_t key, size_t k) {
        return static_cast<float>(key % 1000 + 1) * 0.5f + static_cast<float>(k);
      };
      int64_t rows = 0;
      for (const int64_t more : {1, 90, 700, dim > 100 ? 500 : 6000}) {
        std::vector<int64_t> fresh(more);
        std::iota(fresh.begin(), fresh.end(), rows);
        rows += more;
        std::vector<float> values;
        for (const int64_t key : fresh)
          for (size_t k = 0; k < dim; ++k) values.push_back(value(key, k));
        ASSERT_EQ(table.add_if_absent(keys(fresh), values, {}), fresh.size());
        for (const size_t n : {0, 1, 15, 16, 40, 41, 64, 127, 128, 129, 700}) {
          std::vector<int64_t> asked(n);
          for (int64_t& key : asked)
            key = static_cast<int64_t>(random() % static_cast<uint64_t>(rows + rows / 4 + 1));
          std::vector<float> out(n * dim, -7);
          std::vector<uint8_t> found(n, 2);
          const auto known = static_cast<size_t>(
              std::count_if(asked.begin(), asked.end(), [&](int64_t k) { return k < rows; }));
          ASSERT_EQ(table.gather(keys(asked), out, found), known);
          for (size_t i = 0; i < n; ++i) {
            ASSERT_EQ(found[i], asked[i] < rows);
            for (size_t k = 0; k < dim; ++k) ASSERT_EQ(out[i * dim + k], found[i] ? value(asked[i], k) : -7);
          }
        }
      }
    }
}

// A batch that ends in the middle of a slab, and of the keys that are created together.
TEST(MemoryTable, RowsAreWholeWhenMemoryEndsInTheMiddleOfABatch) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more addresses than any limit allows";
#endif
  EXPECT_TRUE(testing_support::succeeds_within(size_t{100} << 20, [] {
    constexpr uint32_t kDim = 1000;
    constexpr size_t kKeys = 500;
    MemoryTable table(spec("t", kDim), std::vector<float>{7});
    std::vector<int64_t> keys(kKeys);
    std::vector<float> values(kKeys * kDim), out(kKeys * kDim);
    std::vector<uint8_t> found(kKeys);
    const auto set_batch = [&](int64_t first) {
      std::iota(keys.begin(), keys.end(), first);
      for (size_t i = 0; i < kKeys; ++i)
        std::fill_n(values.begin() + static_cast<ptrdiff_t>(i * kDim), kDim, static_cast<float>(keys[i]));
    };
    const KeysView view{KeyKind::kInt64, keys, {}, {}};
    int64_t begun = 0;
    try {
      for (; begun < 100'000; begun += kKeys) {
        set_batch(begun);
        table.add_if_absent(view, values, {});
      }
      ADD_FAILURE() << "memory did not end";
    } catch (const std::bad_alloc&) {
    }
    EXPECT_NE(table.rows() % kKeys % RowIndex::kMostAtOnce, 0u);
    size_t count = 0;
    for (int64_t first = 0; first <= begun; first += kKeys) {
      set_batch(first);
      count += table.gather(view, out, found);
      for (size_t i = 0; i < kKeys; ++i)
        for (size_t k = 0; found[i] && k < kDim; ++k) ASSERT_EQ(out[i * kDim + k], values[i * kDim + k]);
    }
    EXPECT_EQ(count, table.rows());
    for (uint64_t cursor = 0; cursor != Store::kScanEnd;)
      cursor = table.scan(cursor, 100, [&](KeysView some, std::span<const float> floats) {
        for (size_t i = 0; i < some.size(); ++i) ASSERT_EQ(floats[i * (kDim + 1) + kDim], 7);
      });
  }));
}

// Batches of several blocks, with keys twice, of both kinds, after rows were removed: some rows are new, some
// take the place of removed ones, some exist. Slots do not begin with zeros.
TEST(MemoryTable, BehavesAsAMapWhenBatchesAreLargeAndRowsAreRemoved) {
  std::mt19937_64 random(23);
  for (const KeyKind kind : {KeyKind::kInt64, KeyKind::kBytes}) {
    MemoryTable table(spec("t", 2, kind), std::vector<float>{9});
    std::map<int64_t, std::vector<float>> wanted;  // rows with their slot
    const auto some_keys = [&](size_t n) {
      std::vector<int64_t> keys(n);
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % 3000);
      return keys;
    };
    const auto as_keys = [&](const std::vector<int64_t>& numbers) {
      if (kind == KeyKind::kInt64) return Keys(numbers);
      std::vector<std::string> texts;
      for (const int64_t n : numbers) texts.push_back("key " + std::to_string(n));
      return Keys(texts);
    };
    float next = 0;
    for (int round = 0; round < 60; ++round) {
      table.remove(as_keys([&] {
        const std::vector<int64_t> gone = some_keys(random() % 300);
        for (const int64_t key : gone) wanted.erase(key);
        return gone;
      }()));
      const std::vector<int64_t> keys = some_keys(random() % 400);
      std::vector<float> values;
      if (round % 3 == 0) {
        for (const int64_t key : keys) {
          wanted[key] = {next, next + 1, next + 2};
          values.insert(values.end(), wanted[key].begin(), wanted[key].end());
          next += 3;
        }
        table.restore(as_keys(keys), values);
      } else {
        for (size_t i = 0; i < keys.size(); ++i, next += 2) values.insert(values.end(), {next, next + 1});
        for (size_t i = 0; i < keys.size(); ++i)
          wanted.try_emplace(keys[i], std::vector<float>{values[2 * i], values[2 * i + 1], 9});
        if (round % 3 == 1) {
          table.add_if_absent(as_keys(keys), values, {});
        } else {
          std::vector<float> out(values.size());
          std::vector<uint8_t> found(keys.size());
          const auto fill = [&](std::span<float> rows, std::span<const uint8_t> has) {
            for (size_t i = 0; i < keys.size(); ++i)
              if (!has[i]) std::copy_n(&values[2 * i], 2, &rows[2 * i]);
          };
          ASSERT_EQ(table.gather_or_create(as_keys(keys), fill, out, found), keys.size());
          for (size_t i = 0; i < keys.size(); ++i) {
            ASSERT_EQ(out[2 * i], wanted[keys[i]][0]);
            ASSERT_EQ(out[2 * i + 1], wanted[keys[i]][1]);
          }
        }
      }
      ASSERT_EQ(table.rows(), wanted.size());
    }
    std::map<std::string, std::vector<float>> expected, scanned;
    for (const auto& [key, row] : wanted) expected[to_string(as_keys({key}), 0)] = row;
    for (uint64_t cursor = 0; cursor != Store::kScanEnd;)
      cursor = table.scan(cursor, 100, [&](KeysView k, std::span<const float> values) {
        for (size_t i = 0; i < k.size(); ++i) {
          const auto row = values.subspan(3 * i, 3);
          scanned[to_string(k, i)] = {row.begin(), row.end()};
        }
      });
    EXPECT_EQ(scanned, expected);
  }
}

TEST(RecentPlaces, KnowTheLastListsOnce) {
  RecentPlaces recent;
  std::vector<float> rows(100);
  const auto places = [&](std::span<const int64_t> keys) {
    std::vector<float*> all;
    for (const int64_t key : keys) all.push_back(&rows[static_cast<size_t>(key)]);
    return all;
  };
  std::vector<std::vector<int64_t>> lists;
  for (int64_t i = 0; i < 20; ++i) lists.push_back({i, 50, i});
  for (const auto& list : lists) {
    std::vector<float*> found = places(list);
    recent.note(list, found);
  }
  EXPECT_TRUE(recent.take(std::vector<int64_t>{}).empty());
  EXPECT_TRUE(recent.take(std::vector<int64_t>{19, 50}).empty());
  EXPECT_TRUE(recent.take(std::vector<int64_t>{19, 50, 18}).empty());
  for (size_t i = 0; i < lists.size(); ++i) {
    const auto taken = recent.take(lists[i]);
    EXPECT_EQ(std::vector<float*>(taken.begin(), taken.end()),
              i < 4 ? std::vector<float*>() : places(lists[i]));  // sixteen are kept
    EXPECT_TRUE(recent.take(lists[i]).empty());
  }
  std::vector<float*> found = places(lists[0]);
  recent.note(lists[0], found);
  recent.forget();
  EXPECT_TRUE(recent.take(lists[0]).empty());
}

// Pulls, and pushes of the same keys some time later, while rows are added, removed and added again.
TEST(MemoryTable, APushFindsTheRowsOfItsPull) {
  MemoryTable table(spec("t", 2), std::vector<float>{0});
  std::map<int64_t, float> wanted;
  std::mt19937_64 random(17);
  int64_t next = 0;
  const auto add = [&](const std::vector<int64_t>& keys) {
    table.add_if_absent(Keys(keys), std::vector<float>(2 * keys.size(), 0), {});
    for (const int64_t key : keys) wanted.emplace(key, 0.f);
  };
  const auto push = [&](const std::vector<int64_t>& keys) {
    const RowsKernel add_gradients = rows_kernel([](auto row, auto, auto grad) {
      for (size_t k = 0; k < row.size(); ++k) row[k] += grad[k];
    });
    table.update_rows(Keys(keys), std::vector<float>(2 * keys.size(), 1), add_gradients, 1);
  };
  std::deque<std::vector<int64_t>> under_way;
  for (int turn = 0; turn < 400; ++turn) {
    std::vector<int64_t> fresh(random() % 300);
    std::iota(fresh.begin(), fresh.end(), next);
    next += static_cast<int64_t>(fresh.size());
    add(fresh);
    std::vector<int64_t> keys(1 + random() % 50);
    for (int64_t& key : keys) key = static_cast<int64_t>(random() % static_cast<uint64_t>(next + 1));
    add(keys);
    next = std::max(next, *std::max_element(keys.begin(), keys.end()) + 1);
    std::vector<float> out(2 * keys.size());
    std::vector<uint8_t> found(keys.size());
    ASSERT_EQ(table.gather(Keys(keys), out, found), keys.size());
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(out[2 * i + 1], wanted[keys[i]]);
    under_way.push_back(keys);
    if (turn % 50 == 49) {
      const int64_t gone = under_way.front().front();
      table.remove(ints({gone}));
      expect_error(ErrorCode::kMissingKey, {std::to_string(gone)}, [&] { push(under_way.front()); });
      wanted[gone] = 0;
      add({next++, gone});  // its place is another's now
    }
    if (under_way.size() > random() % 12) {
      push(under_way.front());
      for (const int64_t key : under_way.front()) ++wanted[key];
      under_way.pop_front();
    }
  }
  for (const auto& [key, value] : wanted) {
    std::vector<float> out(2);
    std::vector<uint8_t> found(1);
    ASSERT_EQ(table.gather(ints({key}), out, found), 1u);
    ASSERT_EQ(out, (std::vector<float>{value, value})) << key;
  }
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
