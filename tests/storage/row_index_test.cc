#include "storage/memory/row_index.h"

#include <algorithm>
#include <map>
#include <random>

#include "storage/memory/key_of_hash.h"
#include "tests/storage/store_testing.h"

namespace embers::storage {
namespace {

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

}  // namespace
}  // namespace embers::storage
