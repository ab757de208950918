#include "base/floats/stores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/floats/copy_floats.h"
#include "base/floats/float_buffer.h"

namespace embers {
namespace {

constexpr size_t kBytes = 1 << 20;

StoreChoice::Duration taking(double ns_a_byte) {
  return StoreChoice::Duration(std::llround(ns_a_byte * static_cast<double>(kBytes)));
}

// Writes so many messages, which take so long each way; how many of the last third went around the caches.
double share_around(StoreChoice& choice, size_t messages, double cached, double around,
                    size_t slow_every = 0) {
  size_t counted = 0, went_around = 0;
  for (size_t i = 0; i < messages; ++i) {
    const Stores stores = choice.next();
    double ns = stores == Stores::kAround ? around : cached;
    if (slow_every > 0 && i % slow_every == 0) ns *= 20;
    choice.took(stores, kBytes, taking(ns));
    if (i < messages - messages / 3) continue;
    ++counted;
    went_around += stores == Stores::kAround;
  }
  return static_cast<double>(went_around) / static_cast<double>(counted);
}
constexpr double kTries = 1.0 / StoreChoice::kTryEvery;
constexpr size_t kMany = 60 * StoreChoice::kTryEvery;

TEST(StoreChoice, GoesAroundTheCachesWhereThatSavesMoreThanTheReaderLoses) {
  StoreChoice choice;
  EXPECT_EQ(choice.next(), Stores::kCached);
  EXPECT_NEAR(share_around(choice, kMany, 0.20, 0.03), 1 - kTries, 0.01);
}

TEST(StoreChoice, StaysInTheCachesWhereItSavesLittle) {
  StoreChoice choice;
  EXPECT_NEAR(share_around(choice, kMany, 0.03, 0.03), kTries, 0.01);
  EXPECT_NEAR(share_around(choice, kMany, 0.08, 0.03), kTries, 0.01);
}

TEST(StoreChoice, FollowsAMachineThatChanges) {
  StoreChoice choice;
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(share_around(choice, kMany, 0.20, 0.03), 1 - kTries, 0.01);
    EXPECT_NEAR(share_around(choice, kMany, 0.075, 0.03), 1 - kTries, 0.01) << "no more than half is lost";
    EXPECT_NEAR(share_around(choice, kMany, 0.03, 0.035), kTries, 0.01);
  }
}

TEST(StoreChoice, IsNotFooledByMessagesThatWereHeldUp) {
  StoreChoice choice;
  EXPECT_NEAR(share_around(choice, kMany, 0.03, 0.03, 4), kTries, 0.01);
  EXPECT_NEAR(share_around(choice, kMany, 0.20, 0.03, 4), 1 - kTries, 0.01);
}

TEST(CopyRows, WritesTheSameAroundTheCaches) {
  for (const size_t dim : {1, 3, 4, 8, 12, 16, 20, 64, 100, 128, 1000})
    for (const size_t begin : {0, 1, 4, 16}) {  // also where going around is not possible
      constexpr size_t kRows = 70;
      std::vector<float> table(kRows * dim);
      for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
      std::vector<const float*> rows;
      for (size_t i = 0; i < kRows; ++i) rows.push_back(i % 7 == 3 ? nullptr : &table[i * 31 % kRows * dim]);
      FloatBuffer cached(begin + kRows * dim + 1), around(begin + kRows * dim + 1);
      std::ranges::fill(cached.span(), -1.0f);
      std::ranges::fill(around.span(), -1.0f);
      std::vector<uint8_t> found(kRows, 9), found_around(kRows, 9);
      const size_t count = copy_rows(rows, dim, cached.data() + begin, found.data());
      EXPECT_EQ(copy_rows(rows, dim, around.data() + begin, found_around.data(), Stores::kAround), count);
      EXPECT_EQ(found, found_around);
      EXPECT_TRUE(std::ranges::equal(cached.span(), around.span())) << dim << ", " << begin;
      copy_floats(around.data() + begin, table.data(), table.size(), Stores::kAround);
      EXPECT_TRUE(std::equal(table.begin(), table.end(), around.data() + begin)) << dim << ", " << begin;
      EXPECT_EQ(around.span().back(), -1.0f);
    }
}

}  // namespace
}  // namespace embers
