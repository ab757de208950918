#include "base/floats/numbers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace embers {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr NumberType kHalves[] = {NumberType::kFloat16, NumberType::kBfloat16};

float back(NumberType type, uint16_t half) {
  float x;
  from_halves(type, &half, {&x, 1});
  return x;
}

uint16_t nearest(NumberType type, float x) {
  uint16_t half;
  to_halves(type, {&x, 1}, &half);
  return half;
}

float largest(NumberType type) { return back(type, type == NumberType::kFloat16 ? 0x7bff : 0x7f7f); }

// Value of a float16 by its definition.
double defined_float16(uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

bool is_special(NumberType type, uint16_t half) {
  const uint16_t exponent = type == NumberType::kFloat16 ? 0x7c00 : 0x7f80;
  return (half & exponent) == exponent;
}

// Every half, the middle between two halves, numbers next to these, and random bits.
std::vector<float> many_floats() {
  std::vector<float> floats{0.0f,     -0.0f,    kInf,    -kInf,   std::nanf(""), 65504.0f,
                            65519.0f, 65520.0f, 1e6f,    -1e6f,   3.3e38f,       3.4e38f,
                            -3.4e38f, 1e-40f,   5.9e-8f, 2.9e-8f, 3.0e-8f,       6.1e-5f};
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const auto x = static_cast<float>(defined_float16(static_cast<uint16_t>(half)));
    const auto next = static_cast<float>(defined_float16(static_cast<uint16_t>(half + 1)));
    for (const float y : {x, (x + next) / 2, std::nextafter((x + next) / 2, 0.0f), std::nextafter(x, kInf)})
      floats.push_back(half % 2 == 0 ? y : -y);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return floats;
}

TEST(Numbers, EveryFloat16IsTheNumberOfItsDefinition) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const auto h = static_cast<uint16_t>(half);
    if (!is_special(NumberType::kFloat16, h)) {
      ASSERT_EQ(back(NumberType::kFloat16, h), defined_float16(h)) << half;
    }
  }
  EXPECT_EQ(back(NumberType::kFloat16, 0x7c00), kInf);
  EXPECT_EQ(back(NumberType::kFloat16, 0xfc00), -kInf);
  EXPECT_TRUE(std::isnan(back(NumberType::kFloat16, 0x7c01)));
}

TEST(Numbers, EveryHalfComesBackAsItWas) {
  for (const NumberType type : kHalves)
    for (uint32_t half = 0; half < 0x10000; ++half) {
      const auto h = static_cast<uint16_t>(half);
      const float x = back(type, h);
      if (std::isnan(x))
        ASSERT_TRUE(std::isnan(back(type, nearest(type, x)))) << half;
      else
        ASSERT_EQ(nearest(type, x), h);
    }
}

// No half is nearer than the one chosen; of two that are equally near, the even one is chosen.
TEST(Numbers, AreRoundedToTheNearestHalf) {
  for (const NumberType type : kHalves)
    for (const float x : many_floats()) {
      const uint16_t half = nearest(type, x);
      const float y = back(type, half);
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(y));
        continue;
      }
      ASSERT_EQ(std::signbit(x), std::signbit(y)) << x;
      if (std::isinf(x) || std::fabs(x) >= largest(type)) {
        ASSERT_EQ(std::fabs(y), std::isinf(x) ? kInf : largest(type)) << x;
        continue;
      }
      const double error = std::fabs(double{x} - y);
      for (const int step : {-1, 1}) {
        const auto other = static_cast<uint16_t>(half + step);
        if ((half & 0x7fff) == 0 && step < 0) continue;
        if (is_special(type, other)) continue;
        const double others = std::fabs(double{x} - back(type, other));
        ASSERT_LE(error, others) << x;
        if (error == others) {
          ASSERT_EQ(half % 2, 0) << x;
        }
      }
    }
}

TEST(Numbers, EveryWayToConvertFloat16GivesTheSameBits) {
  const std::vector<float> floats = many_floats();
  const auto& ways = ways_to_convert_float16();
  std::vector<uint16_t> first(floats.size()), other(floats.size());
  ways[0].to(floats.data(), floats.size(), first.data());
  std::vector<uint16_t> all(0x10000);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> first_back(all.size()), other_back(all.size());
  ways[0].from(all.data(), all.size(), first_back.data());
  for (const Float16Conversion& way : ways) {
    way.to(floats.data(), floats.size(), other.data());
    for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(other[i], first[i]) << floats[i];
    way.from(all.data(), all.size(), other_back.data());
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(other_back[i]), std::bit_cast<uint32_t>(first_back[i])) << i;
  }
}

// The mean of many roundings is the number, and each of them is one of its two neighbours.
TEST(Numbers, StochasticRoundingIsRightOnAverage) {
  constexpr int kTries = 4000;
  for (const NumberType type : kHalves)
    for (const float x : {1.0003f, -0.7f, 100.37f, 3.3e-6f, -2.1e-7f, 7.0e-5f, 0.1f}) {
      const std::vector<float> row(8, x);
      std::vector<uint16_t> halves(row.size());
      std::map<float, int> seen;
      double sum = 0;
      for (int i = 0; i < kTries; ++i) {
        to_halves_stochastic(type, row, static_cast<uint64_t>(i), halves.data());
        for (const uint16_t half : halves) {
          ++seen[back(type, half)];
          sum += back(type, half);
        }
      }
      ASSERT_EQ(seen.size(), 2u) << x;
      const double low = seen.begin()->first, high = seen.rbegin()->first, step = high - low;
      ASSERT_TRUE(low < x && x < high) << x;
      EXPECT_NEAR(sum / (8.0 * kTries), x, 0.02 * step) << x;
    }
}

TEST(Numbers, StochasticRoundingLeavesHalvesAndSpecialNumbersAlone) {
  for (const NumberType type : kHalves)
    for (uint32_t half = 0; half < 0x10000; ++half) {
      const float x = back(type, static_cast<uint16_t>(half));
      uint16_t again;
      to_halves_stochastic(type, {&x, 1}, half, &again);
      if (std::isnan(x))
        ASSERT_TRUE(std::isnan(back(type, again)));
      else
        ASSERT_EQ(again, half);
    }
  for (const NumberType type : kHalves)
    for (const float x : {1e38f, 3.4e38f}) {
      if (type == NumberType::kBfloat16 && x < 3.39e38f) continue;
      uint16_t half;
      to_halves_stochastic(type, {&x, 1}, 7, &half);
      EXPECT_EQ(back(type, half), largest(type));
    }
}

TEST(Numbers, StochasticRoundingIsAFunctionOfItsSeedAndPlace) {
  const std::vector<float> row(64, 0.3f);
  std::vector<uint16_t> a(64), b(64), c(64);
  to_halves_stochastic(NumberType::kBfloat16, row, 5, a.data());
  to_halves_stochastic(NumberType::kBfloat16, row, 5, b.data());
  to_halves_stochastic(NumberType::kBfloat16, row, 6, c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(std::vector<uint16_t>(64, a[0]), a);
}

TEST(Numbers, RoundToDoesAsKeepingDoes) {
  std::vector<float> row(1000);
  for (size_t i = 0; i < row.size(); ++i) row[i] = 0.001f * static_cast<float>(i) + 0.1f;
  const auto rounded = [&row](NumberType type) {
    std::vector<float> copy(row.begin(), row.end());
    round_to(type, copy);
    return copy;
  };
  EXPECT_EQ(rounded(NumberType::kFloat32), row);
  for (const NumberType type : kHalves)
    for (size_t i = 0; i < row.size(); ++i) ASSERT_EQ(rounded(type)[i], back(type, nearest(type, row[i])));
}

}  // namespace
}  // namespace embers
