#include "data/permutation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/random.h"

namespace embers::data {
namespace {

const std::vector<uint32_t> kSizes = {5, 5, 2, 5, 1};

// Record numbers in the order of an epoch.
std::vector<uint64_t> sequence(const Permutation& permutation, const std::vector<uint32_t>& sizes) {
  std::vector<uint64_t> firsts(sizes.size(), 0);
  std::partial_sum(sizes.begin(), sizes.end() - 1, firsts.begin() + 1);
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < permutation.records(); ++i) {
    const auto place = permutation.at(i);
    out.push_back(firsts[place.block] + permutation.records_of(place.block)[place.at]);
  }
  return out;
}

std::vector<uint64_t> sequence(uint64_t seed, uint64_t epoch) {
  return sequence(Permutation(seed, epoch, kSizes, true), kSizes);
}

TEST(Permutation, HoldsEveryRecordOnce) {
  for (uint64_t epoch = 0; epoch < 20; ++epoch) {
    const auto order = sequence(7, epoch);
    EXPECT_EQ(order.size(), 18u);
    EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()).size(), 18u);
    EXPECT_EQ(*std::max_element(order.begin(), order.end()), 17u);
  }
}

TEST(Permutation, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(sequence(7, 3), sequence(7, 3));
  EXPECT_NE(sequence(7, 3), sequence(7, 4));
  EXPECT_NE(sequence(7, 3), sequence(8, 3));
}

TEST(Permutation, IsTheSameOnEveryPlatform) {
  EXPECT_EQ(sequence(1, 0),
            (std::vector<uint64_t>{1, 3, 4, 0, 2, 17, 16, 12, 15, 13, 14, 5, 7, 9, 8, 6, 10, 11}));
}

TEST(Permutation, KeepsBlocksTogether) {
  const Permutation permutation(1, 0, kSizes, true);
  std::vector<uint32_t> blocks;
  for (uint64_t i = 0; i < permutation.records(); ++i) {
    const auto place = permutation.at(i);
    if (blocks.empty() || blocks.back() != place.block) blocks.push_back(place.block);
  }
  EXPECT_EQ(blocks.size(), kSizes.size());
}

TEST(Permutation, WithoutShuffleIsTheFileOrder) {
  const auto order = sequence(Permutation(1, 0, kSizes, false), kSizes);
  std::vector<uint64_t> expected(18);
  std::iota(expected.begin(), expected.end(), uint64_t{0});
  EXPECT_EQ(order, expected);
}

TEST(Permutation, OfNothingIsEmpty) { EXPECT_EQ(Permutation(1, 0, {}, true).records(), 0u); }

TEST(Random, BelowIsUniform) {
  Random random(1);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[random.below(7)];
  // Five standard deviations of a binomial count.
  for (const int count : counts) EXPECT_NEAR(count, 10000, 5 * 93);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(Random, IsSplitMix64) { EXPECT_EQ(Random(1234567).next(), 6457827717110365317u); }

}  // namespace
}  // namespace embers::data
