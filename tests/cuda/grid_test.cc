// The arithmetic by which kernels share out work, and what they share with the rest of embers.
#include "cuda/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/philox.h"
#include "cuda/index/index.h"
#include "cuda/sort.h"
#include "schema/ids.h"
#include "storage/initializers/initializer.h"

namespace embers::cuda {
namespace {

TEST(Grid, EveryPlaceIsWorkedOnOnceAndNoUnitHasMoreThanTwoUnitsOfWork) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int shift = 1 + static_cast<int>(random() % 4), size = 1 << shift;
    const int begin = static_cast<int>(random() % 40);
    std::vector<int> ends{begin};  // of runs
    while (ends.size() < 30)
      ends.push_back(ends.back() + 1 + static_cast<int>(random() % (random() % 5 == 0 ? 100 : 4)));
    std::vector<int> times(ends.back(), 0), work(units_of(begin, ends.back(), shift).last + 2, 0);
    for (size_t r = 0; r + 1 < ends.size(); ++r) {
      for (int place = ends[r]; place < ends[r + 1]; ++place) {
        const bool cut = is_long(ends[r], ends[r + 1], shift);
        ++times[place];
        ++work[cut ? place >> shift : ends[r] >> shift];
      }
    }
    for (int place = begin; place < ends.back(); ++place) EXPECT_EQ(times[place], 1);
    for (const int places : work) EXPECT_LE(places, 2 * size);
  }
}

TEST(Grid, ALongRunHasAUnitForItself) {
  for (int begin = 0; begin < 40; ++begin)
    for (int end = begin + 1; end < 100; ++end) {
      const Units units = units_of(begin, end, 3);
      if (is_long(begin, end, 3)) {
        EXPECT_GE(units.last - units.first, 2);
      } else {
        EXPECT_LE(end - begin, 2 * 8);
      }
    }
}

TEST(Grid, TasksCoverTheUnitsOfAPart) {
  EXPECT_EQ(tasks_of(7, 7, 3, 4), 0);
  for (const int lanes : {4, 8, 32})
    for (int begin = 0; begin < 50; ++begin)
      for (int end = begin + 1; end < 400; end += 7) {
        const Units units = units_of(begin, end, 3);
        const int groups = 32 / lanes, tasks = tasks_of(begin, end, 3, lanes);
        EXPECT_GE(tasks * groups, units.last - units.first + 1);
        EXPECT_LT((tasks - 1) * groups, units.last - units.first + 1);
      }
}

TEST(Grid, PartOfSkipsEmptyParts) {
  const int first[] = {0, 3, 3, 3, 5, 9};
  const int expected[] = {0, 0, 0, 3, 3, 4, 4, 4, 4};
  for (int task = 0; task < 9; ++task) EXPECT_EQ(part_of(first, 5, task), expected[task]);
}

TEST(Grid, AWarpFindsWhereTwoPlacesAre) {
  std::vector<int> starts(1000);
  std::mt19937 random(2);
  for (size_t i = 1; i < starts.size(); ++i) starts[i] = starts[i - 1] + 1 + static_cast<int>(random() % 5);
  for (int trial = 0; trial < 200; ++trial) {
    const auto count = static_cast<int>(random() % 1001);
    const int a = static_cast<int>(random() % 3200), b = a + static_cast<int>(random() % 100);
    const auto expected = [&](int place) {
      return static_cast<int>(std::lower_bound(starts.begin(), starts.begin() + count, place) -
                              starts.begin());
    };
    cpu::Grid grid;
    cpu::run(grid, [&] {
      const TwoNumbers found = first_from(count, a, b, [&](int i) { return starts[i]; });
      EXPECT_EQ(found.a, expected(a));
      EXPECT_EQ(found.b, expected(b));
      EXPECT_EQ(first_from_between(0, count, a, [&](int i) { return starts[i]; }), found.a);
    });
  }
}

TEST(SortPlan, DigitsReachEveryNumber) {
  for (const uint64_t most :
       {1ull, 2ull, 32ull, 33ull, 1000ull, 65537ull, 1ull << 21, (1ull << 21) + 1, 1ull << 32}) {
    const SortPlan plan = sort_plan(most);
    EXPECT_LE(plan.bits, kMostDigitBits);
    EXPECT_GE(plan.bits, kLeastDigitBits);
    EXPECT_GE(uint64_t{1} << std::min(plan.passes * plan.bits, 40), most);
  }
}

TEST(Index, HashesKeysAsTheRestOfEmbers) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    const auto key = static_cast<int64_t>(random());
    EXPECT_EQ(hash_of(key), embers::hash_key(key));
  }
}

TEST(Index, DrawsAsPhilox) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 100; ++i) {
    const uint64_t hash = random(), key = random();
    const auto column = static_cast<uint32_t>(random() % 1024);
    const uint32_t stream[2] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
    const auto words =
        embers::philox({static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32), column / 4, 0},
                       {stream[0], stream[1]});
    EXPECT_EQ(random_word(hash, column, stream), words[column % 4]);
  }
}

// Rows begin as those of a table in a job, given the stream that its seed and name make.
TEST(Index, FirstValuesAreThoseOfTheInitializer) {
  embers::TableSpec table;
  table.name = "users";
  table.dim = 10;
  table.initializer = {"uniform", {{"minval", -0.5}, {"maxval", 0.25}}};
  const auto initializer = embers::storage::Initializer::make(7, table);
  const std::vector<int64_t> keys{0, -1, 5, 1'000'000'007};
  std::vector<float> rows(keys.size() * table.dim);
  const embers::Keys of(keys);
  initializer->fill(of.view(), rows);
  const auto mix = [](uint64_t x) { return embers::hash_key(static_cast<int64_t>(x)); };
  const uint64_t stream = mix(mix(7) + embers::hash_key(std::string_view("users")));
  FirstValues first{-0.5,
                    0.25,
                    std::nextafter(0.25f, -0.5f),
                    {static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                    {0, 0}};
  for (size_t k = 0; k < keys.size(); ++k)
    for (uint32_t c = 0; c < table.dim; ++c)
      EXPECT_EQ(first_value(first, hash_of(keys[k]), c), rows[k * table.dim + c]);
}

}  // namespace
}  // namespace embers::cuda
