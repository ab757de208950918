#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include "storage/memory/key_of_hash.h"
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

TEST(KeyOfHash, UndoesHashKey) {
  std::mt19937_64 random(7);
  for (const int64_t key : {int64_t{0}, int64_t{1}, int64_t{-1}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(key_of_hash(hash_key(key)), key);
  for (int i = 0; i < 10'000; ++i) {
    const auto key = static_cast<int64_t>(random() >> random() % 64);
    ASSERT_EQ(key_of_hash(hash_key(key)), key);
  }
}

// With any number of buckets: a cell gives back the hash that was put into its home, and no other one matches
// it. Small and large, with hashes as close together and as far apart as can be.
TEST(RowBucket, HoldsWholeHashes) {
  std::mt19937_64 random(11);
  for (const uint64_t buckets : {8ul, 9ul, 64ul, 77ul, 12'345ul, 65'535ul, 65'536ul, 65'537ul, 1'000'003ul,
                                 1ul << 24, (1ul << 31) + 5}) {
    const bool small = buckets < RowBucket::kLarge;
    for (int round = 0; round < 200; ++round) {
      const uint64_t home = round == 0 ? 0 : round == 1 ? buckets - 1 : random() % buckets;
      const uint64_t first = ((home << 32) + buckets - 1) / buckets;
      const uint64_t end = (((home + 1) << 32) + buckets - 1) / buckets;
      RowBucket bucket{};
      std::vector<RowCell> cells;
      for (uint32_t k = 0; k < RowBucket::kCells; ++k) {
        const uint64_t lower = k == 0 ? first : k == 1 ? end - 1 : first + random() % (end - first);
        const uint64_t hash = lower | (k < 4 ? 5 : random() % 3) << 32;
        ASSERT_EQ(RowBucket::home(hash, buckets), home);
        cells.push_back(
            {hash, static_cast<uint32_t>(random() % (small ? RowBucket::kSmallRows : UINT32_MAX))});
        bucket.add(hash, cells[k].row, small);
      }
      bucket.set_node(small ? 12345 : (1 << 28) - 1);
      const auto wanted = [&](uint64_t hash) {
        uint32_t bits = 0;
        for (uint32_t k = 0; k < cells.size(); ++k) bits |= static_cast<uint32_t>(cells[k].hash == hash) << k;
        return bits;
      };
      for (uint32_t k = 0; k < cells.size(); ++k) {
        const RowCell cell = bucket.cell(k, RowBucket::first_of(home, buckets));
        EXPECT_EQ(cell.hash, cells[k].hash);
        EXPECT_EQ(cell.row, cells[k].row);
        EXPECT_EQ(bucket.row_at(k), cells[k].row);
        EXPECT_EQ(bucket.matches(cells[k].hash), wanted(cells[k].hash));
        for (int i = 0; i < 20; ++i) {
          const uint64_t other = (first + random() % (end - first)) | (5 + random() % 2) << 32;
          ASSERT_EQ(bucket.matches(other), wanted(other)) << buckets;
        }
      }
      bucket.remove(1);
      cells[1] = cells.back();
      cells.pop_back();
      for (const RowCell& cell : cells) EXPECT_EQ(bucket.matches(cell.hash), wanted(cell.hash));
      EXPECT_EQ(bucket.count(), cells.size());
      EXPECT_EQ(bucket.node(), small ? 12345u : (1u << 28) - 1);
    }
  }
}

// Byte strings whose whole hashes are equal are told apart by comparison.
TEST(RowIndex, EqualHashesAreComparedByTheCaller) {
  RowIndex index;
  for (uint32_t row = 0; row < 500; ++row)
    EXPECT_EQ(index.find_or_insert(42, row, [&](uint32_t candidate) { return candidate == row; }), row);
  for (uint32_t row = 0; row < 500; ++row)
    EXPECT_EQ(index.find(42, [&](uint32_t candidate) { return candidate == row; }), row);
  EXPECT_EQ(index.find(42, [](uint32_t) { return false; }), RowIndex::kNone);
  EXPECT_EQ(index.find(43), RowIndex::kNone);
}

// After every insertion, growing or not: 33 bytes a row at most, 22 once it is large, and nothing is lost.
TEST(RowIndex, GrowsGraduallyAndStaysSmall) {
  RowIndex index;
  constexpr int64_t kRows = 11'000'000, kLarge = 7'000'000;
  std::mt19937_64 random(3);
  int64_t large_from = kRows;  // it has grown since it was large
  for (int64_t key = 0; key < kRows; ++key) {
    const uint64_t before = index.resident_bytes();
    index.find_or_insert(hash_key(key), static_cast<uint32_t>(key));
    const auto older = static_cast<int64_t>(random() % static_cast<uint64_t>(key + 1));
    ASSERT_EQ(index.find(hash_key(older)), older) << key;
    const uint64_t bytes = index.resident_bytes();
    if (key > kLarge && bytes > before) large_from = std::min(large_from, key);
    const uint64_t most = static_cast<uint64_t>(key) * (key >= large_from ? 220 : 330) / 10;
    if (key > 1'000'000) {
      ASSERT_LE(bytes, most + 2 * kHugePage) << key;
    }
  }
  EXPECT_LT(large_from, kRows - 500'000);
  for (int64_t key = 0; key < kRows; ++key) ASSERT_EQ(index.find(hash_key(key)), key);
  EXPECT_EQ(index.find(hash_key(kRows)), RowIndex::kNone);
  std::vector<bool> seen(kRows);
  index.visit([&](uint64_t hash, uint32_t row) {
    EXPECT_EQ(key_of_hash(hash), row);
    EXPECT_FALSE(seen[row]);
    seen[row] = true;
  });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), kRows);
}

// Batches of all sizes, also of hashes that are not there.
void expect_batches_find_the_same(RowIndex& index, const std::map<uint64_t, uint32_t>& model) {
  std::vector<uint64_t> hashes;
  for (const auto& [hash, row] : model) {
    hashes.push_back(hash);
    hashes.push_back(hash ^ uint64_t{1} << 60);  // of the same home
  }
  RowSlabs slabs(1);
  while (slabs.rows() < 20'000) slabs.append();  // as many as models have
  for (const bool avx512 : {false, has_avx512()}) {
    std::vector<uint32_t> rows(hashes.size());
    std::vector<float*> places(hashes.size());
    for (size_t begin = 0, size = 0; begin < hashes.size(); begin += size++) {
      size = std::min(size, hashes.size() - begin);
      const auto some = std::span(hashes).subspan(begin, size);
      index.find_all(some, std::span(rows).subspan(begin, size), avx512);
      index.find_all(some, slabs, std::span(places).subspan(begin, size), avx512);
    }
    for (size_t i = 0; i < hashes.size(); ++i) {
      const auto found = model.find(hashes[i]);
      const bool is_there = found != model.end();
      ASSERT_EQ(rows[i], is_there ? found->second : RowIndex::kNone);
      ASSERT_EQ(places[i], is_there ? slabs.row(found->second) : nullptr);
    }
  }
}

// In a small index, against a map, with runs of keys that share their home and go beyond the last one.
TEST(RowIndex, BehavesAsAMapWhenKeysCrowdAndAreErased) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    RowIndex index;
    std::map<uint64_t, uint32_t> model;
    for (uint32_t i = 0; i < 20'000; ++i) {
      const uint64_t crowd[] = {UINT32_MAX, UINT32_MAX - 1000, 5, random() % 4096 << 20};
      const uint64_t hash = crowd[random() % 4] | (random() % 40 << 32);
      if (random() % 3 == 0) {
        const auto found = model.find(hash);
        if (found == model.end()) continue;
        index.erase(hash, found->second);
        model.erase(found);
      } else if (model.emplace(hash, i).second) {
        index.find_or_insert(hash, i);
      }
      ASSERT_EQ(index.size(), model.size());
    }
    for (const auto& [hash, row] : model) ASSERT_EQ(index.find(hash), row);
    expect_batches_find_the_same(index, model);
    size_t visited = 0;
    index.visit([&](uint64_t hash, uint32_t row) {
      ++visited;
      EXPECT_EQ(model.at(hash), row);
    });
    EXPECT_EQ(visited, model.size());
  }
}

// While it grows from small buckets to large ones and beyond, some rows removed and their numbers used again.
TEST(RowIndex, KeepsItsCellsWhileItBecomesLarge) {
  std::mt19937_64 random(9);
  RowIndex index;
  std::vector<uint64_t> hash_of_row;
  std::vector<uint32_t> free, used;
  uint64_t room = 0;  // insertions until room must be made again
  const auto insert = [&] {
    if (room == 0) index.make_room(room = 1 + random() % RowIndex::kMostAtOnce);
    --room;
    const uint32_t row = free.empty() ? static_cast<uint32_t>(hash_of_row.size()) : free.back();
    if (free.empty())
      hash_of_row.push_back(0);
    else
      free.pop_back();
    hash_of_row[row] = random();
    used.push_back(row);
    ASSERT_EQ(index.find_or_add(hash_of_row[row], row, [](uint32_t) { return true; }), row);
  };
  const auto check = [&] {
    size_t visited = 0;
    index.visit([&](uint64_t hash, uint32_t row) {
      ++visited;
      ASSERT_EQ(hash_of_row[row], hash);
    });
    ASSERT_EQ(visited, used.size());
    std::map<uint64_t, uint32_t> model;
    for (const uint32_t row : used) {
      ASSERT_EQ(index.find(hash_of_row[row]), row);
      model.emplace(hash_of_row[row], row);
    }
    expect_batches_find_the_same(index, model);
  };
  for (const size_t until : {130'000, 270'000, 290'000, 300'000, 330'000, 420'000}) {
    while (used.size() < until) {
      insert();
      if (random() % 8 != 0) continue;
      const size_t k = random() % used.size();
      index.erase(hash_of_row[used[k]], used[k]);
      EXPECT_EQ(index.find(hash_of_row[used[k]]), RowIndex::kNone);
      free.push_back(used[k]);
      used[k] = used.back();
      used.pop_back();
    }
    check();
  }
}

// Nodes and cells that were given back are taken again.
TEST(RowIndex, TakesNewKeysAfterNearlyAllWereErased) {
  RowIndex index;
  const auto insert = [&](int64_t key) { index.find_or_insert(hash_key(key), static_cast<uint32_t>(key)); };
  const auto erase = [&](int64_t key) { index.erase(hash_key(key), static_cast<uint32_t>(key)); };
  for (int64_t key = 0; key < 145'000; ++key) insert(key);
  for (int64_t key = 0; key < 145'000; ++key) erase(key);
  for (int64_t key = 0; key < 19'000; ++key) insert(key), erase(key);
  for (int64_t key = 0; key < 30'000; ++key) insert(key);
  for (int64_t key = 0; key < 30'000; ++key) ASSERT_EQ(index.find(hash_key(key)), key);
  EXPECT_EQ(index.size(), 30'000u);
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
