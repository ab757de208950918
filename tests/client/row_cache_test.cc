#include "client/pipeline/row_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace embers {
namespace {

constexpr uint32_t kDim = 3;

// Rows whose every number is the value of their key.
std::vector<float> rows(const std::vector<float>& values) {
  std::vector<float> all;
  for (const float v : values) all.insert(all.end(), kDim, v);
  return all;
}

class IntCache {
 public:
  IntCache(size_t rows, uint64_t staleness) : cache(KeyKind::kInt64, kDim, rows, staleness) {}
  void put(std::vector<int64_t> keys, uint64_t step, const std::vector<float>& values, size_t owner = 0,
           uint64_t version = 1) {
    cache.put(Keys(std::move(keys)), step, owner, version, rows(values));
  }
  // First numbers of the rows found; -1 for those missing.
  std::vector<float> find(std::vector<int64_t> keys, uint64_t step) {
    std::vector<float> out(keys.size() * kDim, -1);
    oldest.assign(3, UINT64_MAX);
    const RowCache::Found found = cache.find(Keys(std::move(keys)), step, out, oldest);
    std::vector<float> first;
    for (size_t i = 0; i < out.size(); i += kDim) first.push_back(out[i]);
    EXPECT_EQ(found.hits + found.missing.size(), first.size());
    for (const uint32_t place : found.missing) EXPECT_EQ(first.at(place), -1);
    return first;
  }

  RowCache cache;
  std::vector<uint64_t> oldest;
};

TEST(RowCache, GivesARowOutForAsManyStepsAsTheBound) {
  IntCache cache(64, 2);
  cache.put({7}, 5, {70});
  EXPECT_EQ(cache.find({7, 8}, 6), (std::vector<float>{70, -1}));
  EXPECT_EQ(cache.find({7}, 7), (std::vector<float>{70}));
  EXPECT_EQ(cache.find({7}, 8), (std::vector<float>{-1})) << "giving a row out makes it no younger";
  IntCache none(64, 0);
  none.put({7}, 5, {70});
  EXPECT_EQ(none.find({7}, 6), (std::vector<float>{-1}));
}

TEST(RowCache, KeepsTheRowThatWasAskedForLast) {
  IntCache cache(64, 2);
  cache.put({1, 2}, 4, {10, 20});
  cache.put({1}, 6, {11});
  cache.put({1}, 5, {12});  // an answer that came late
  EXPECT_EQ(cache.find({1, 2}, 7), (std::vector<float>{11, -1}));
  EXPECT_EQ(cache.cache.size(), 2);
}

TEST(RowCache, SaysHowOldWhatItGaveOutOfEachOwnerIs) {
  IntCache cache(64, 9);
  cache.put({1}, 1, {0}, 0, 30);
  cache.put({2}, 1, {0}, 2, 41);
  cache.put({3}, 1, {0}, 2, 40);
  cache.find({1, 2, 3}, 2);
  EXPECT_EQ(cache.oldest, (std::vector<uint64_t>{30, UINT64_MAX, 40}));
  cache.find({2}, 2);
  EXPECT_EQ(cache.oldest, (std::vector<uint64_t>{UINT64_MAX, UINT64_MAX, 41}));
}

TEST(RowCache, ComparesByteKeysInFull) {
  RowCache cache(KeyKind::kBytes, 1, 64, 5);
  const std::string long_a(1000, 'x'), long_b = long_a + "y";
  const Keys keys(std::vector<std::string>{"", "a", long_a});
  cache.put(keys, 1, 0, 1, std::vector<float>{1, 2, 3});
  std::vector<float> out(5, -1);
  std::vector<uint64_t> oldest(1, UINT64_MAX);
  const auto found = cache.find(Keys(std::vector<std::string>{long_b, long_a, "b", "", "a"}), 2, out, oldest);
  EXPECT_EQ(out, (std::vector<float>{-1, 3, -1, 1, 2}));
  EXPECT_EQ(found.missing, (std::vector<uint32_t>{0, 2}));
}

TEST(RowCache, NeverHoldsMoreThanItsRows) {
  IntCache cache(20, 1'000'000);
  EXPECT_EQ(cache.cache.capacity(), 24) << "whole sets";
  for (int64_t key = 0; key < 5000; ++key) cache.put({key}, 1, {static_cast<float>(key)});
  EXPECT_EQ(cache.cache.size(), 24);
  size_t found = 0;
  for (int64_t key = 0; key < 5000; ++key) {
    const float value = cache.find({key}, 2)[0];
    EXPECT_TRUE(value == -1 || value == static_cast<float>(key));
    found += value >= 0;
  }
  EXPECT_EQ(found, 24);
}

// One set.
TEST(RowCache, MakesRoomOfWhatIsTooOldAndThenOfWhatIsNotUsed) {
  IntCache cache(RowCache::kWays, 100);
  cache.put({1}, 10, {10});
  for (int64_t key = 100; key < 200; ++key) {
    cache.put({key}, 10, {0});
    EXPECT_EQ(cache.find({1}, 11)[0], 10) << "used all the time";
  }
  cache.put({1}, 150, {11});
  for (int64_t key = 2; key < 9; ++key) cache.put({key}, 200, {0});
  EXPECT_EQ(cache.find({1}, 201)[0], 11) << "the seven others were too old";
}

// Whatever is given out is the row that was put last, at most `bound` steps ago.
TEST(RowCache, KeepsTheBoundWhateverHappens) {
  std::mt19937_64 random(3);
  for (const uint64_t bound : {1, 3, 20}) {
    IntCache cache(200, bound);
    std::map<int64_t, uint64_t> put_at;  // the row's value
    uint64_t hits = 0;
    for (uint64_t step = 1; step < 2000; ++step) {
      std::vector<int64_t> keys, missing;
      for (int i = 0; i < 10; ++i) keys.push_back(static_cast<int64_t>(random() % (40 << (random() % 6))));
      const std::vector<float> got = cache.find(keys, step);
      for (size_t i = 0; i < keys.size(); ++i) {
        if (got[i] < 0) {
          missing.push_back(keys[i]);
          continue;
        }
        ++hits;
        EXPECT_EQ(got[i], static_cast<float>(put_at.at(keys[i])));
        EXPECT_LE(step - put_at.at(keys[i]), bound);
      }
      cache.put(missing, step, std::vector<float>(missing.size(), static_cast<float>(step)));
      for (const int64_t key : missing) put_at[key] = step;
    }
    EXPECT_GT(hits, 500);
  }
}

}  // namespace
}  // namespace embers
