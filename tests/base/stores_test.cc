#include "base/floats/stores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/floats/copy_floats.h"
#include "base/floats/float_buffer.h"

namespace embers {
namespace {

constexpr size_t kBytes = 1 << 20;

// What a copy of a number takes each way, ns a byte.
using Takes = std::function<double(size_t i, Stores stores)>;
Takes always(double cached, double around) {
  return [=](size_t, Stores stores) { return stores == Stores::kAround ? around : cached; };
}

void copy_once(StoreChoice& choice, double ns_a_byte, Stores stores) {
  choice.took(stores, kBytes, StoreChoice::Duration(std::llround(ns_a_byte * static_cast<double>(kBytes))));
}

// Makes many copies; which share of the last ones went around the caches.
double share_around(StoreChoice& choice, const Takes& takes) {
  constexpr size_t kCopies = 30 * StoreChoice::kBetweenTries, kLast = 10 * StoreChoice::kBetweenTries;
  size_t went_around = 0;
  for (size_t i = 0; i < kCopies; ++i) {
    const Stores stores = choice.next();
    copy_once(choice, takes(i, stores), stores);
    went_around += i >= kCopies - kLast && stores == Stores::kAround;
  }
  return static_cast<double>(went_around) / kLast;
}
constexpr double kTries = 1.0 / StoreChoice::kBetweenTries;

TEST(StoreChoice, GoesAroundTheCachesWhereThatIsMuchFaster) {
  StoreChoice choice;
  EXPECT_EQ(choice.next(), Stores::kCached);
  EXPECT_NEAR(share_around(choice, always(0.20, 0.03)), 1 - kTries, 0.01);
}

TEST(StoreChoice, StaysInTheCachesWhereItSavesLittle) {
  StoreChoice choice;
  EXPECT_NEAR(share_around(choice, always(0.03, 0.03)), kTries, 0.01);
  EXPECT_NEAR(share_around(choice, always(0.03, 0.30)), kTries, 0.01);
  EXPECT_NEAR(share_around(choice, always(0.07, 0.03)), kTries, 0.01);
}

TEST(StoreChoice, FollowsAMachineThatChanges) {
  StoreChoice choice;
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(share_around(choice, always(0.20, 0.03)), 1 - kTries, 0.01);
    EXPECT_NEAR(share_around(choice, always(0.065, 0.03)), 1 - kTries, 0.01) << "still twice as fast";
    EXPECT_NEAR(share_around(choice, always(0.03, 0.035)), kTries, 0.01);
  }
}

// One in four takes twenty times as long; and all of them ever longer, whichever way.
TEST(StoreChoice, IsNotFooledByCopiesThatWereHeldUp) {
  for (const double cached : {0.03, 0.20})
    for (const bool drifts : {false, true}) {
      StoreChoice choice;
      const auto takes = [&](size_t i, Stores stores) {
        const double drift = drifts ? 1 + 0.1 * static_cast<double>(i) : 1;
        return always(cached, 0.03)(i, stores) * (i % 4 == 1 ? 20 : 1) * drift;
      };
      EXPECT_NEAR(share_around(choice, takes), cached > 0.1 ? 1 - kTries : kTries, 0.03) << drifts;
    }
}

TEST(StoreChoice, TriesNothingBeforeItHasSomethingToCompareWith) {
  StoreChoice choice;
  for (size_t i = 0; i < StoreChoice::kRemembered; ++i) {
    ASSERT_EQ(choice.next(), Stores::kCached);
    copy_once(choice, 0.20, Stores::kCached);
  }
  EXPECT_NEAR(share_around(choice, always(0.20, 0.03)), 1 - kTries, 0.01);
}

TEST(CopyBy, AsksOnlyForLargeCopies) {
  StoreChoice choice;
  size_t around = 0, copies = 0;
  const auto copy = [&](Stores stores) {
    ++copies;
    around += stores == Stores::kAround;
  };
  for (int i = 0; i < 200; ++i) {
    copy_by(&choice, StoreChoice::kLeastBytes - 1, copy);
    copy_by(nullptr, kBytes, copy);
  }
  EXPECT_EQ(around, 0u);
  for (int i = 0; i < 200; ++i) copy_by(&choice, StoreChoice::kLeastBytes, copy);
  EXPECT_GT(around, 0u);
  EXPECT_EQ(copies, 600u);
}

TEST(CopyFloats, CopiesAllAndNothingElse) {
  for (const size_t n : {0, 1, 15, 16, 17, 63, 64, 65, 128, 1000})
    for (const size_t begin : {1, 4, 16}) {
      std::vector<float> from(n);
      for (size_t i = 0; i < n; ++i) from[i] = static_cast<float>(i + 1);
      std::vector<float> to(begin + n + 20, -1), wanted = to;
      std::ranges::copy(from, wanted.begin() + static_cast<ptrdiff_t>(begin));
      copy_floats(to.data() + begin, from.data(), n);
      EXPECT_EQ(to, wanted) << n << ", " << begin;
    }
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
    }
}

// With tries: some of each length go around the caches.
TEST(CopyManyFloats, CopiesAllWhicheverWay) {
  StoreChoice choice;
  for (const size_t n : {size_t{1} << 14, (size_t{1} << 14) + 3, size_t{20001}})
    for (const size_t begin : {0, 1, 4})
      for (int again = 0; again < 40; ++again) {
        std::vector<float> from(n);
        for (size_t i = 0; i < n; ++i) from[i] = static_cast<float>(i + static_cast<size_t>(again));
        FloatBuffer to(begin + n + 1);
        std::ranges::fill(to.span(), -1.0f);
        copy_many_floats(to.data() + begin, from.data(), n, &choice);
        ASSERT_TRUE(std::equal(from.begin(), from.end(), to.data() + begin)) << n << ", " << begin;
        ASSERT_EQ(to.span().back(), -1.0f);
        ASSERT_TRUE(begin == 0 || to.data()[begin - 1] == -1.0f);
      }
}

}  // namespace
}  // namespace embers
