// Numbers as people read them.
#include "base/quantities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace embers {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Quantities, CountsHaveThreeDigitsAndAUnitOnceTheyAreLong) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(9999), "9999");
  EXPECT_EQ(short_count(10'000), "10.0k");
  EXPECT_EQ(short_count(99'949), "99.9k");
  EXPECT_EQ(short_count(99'951), "100k");
  EXPECT_EQ(short_count(999'499), "999k");
  EXPECT_EQ(short_count(999'501), "1.00M");
  EXPECT_EQ(short_count(9.996e6), "10.0M");
  EXPECT_EQ(short_count(1.234e10), "12.3G");
  EXPECT_EQ(short_count(5e18), "5000P");
}

TEST(Quantities, BytesAreInPowersOf1024) {
  EXPECT_EQ(short_bytes(0), "0 B");
  EXPECT_EQ(short_bytes(1023), "1023 B");
  EXPECT_EQ(short_bytes(1024), "1.00 KiB");
  EXPECT_EQ(short_bytes(12.5 * 1024 * 1024), "12.5 MiB");
  EXPECT_EQ(short_bytes(1023.0 * 1024 * 1024), "1023 MiB");
  EXPECT_EQ(short_bytes(1024.0 * 1024 * 1024), "1.00 GiB");
  EXPECT_EQ(short_bytes(std::ldexp(3.0, 50)), "3 PiB");
}

TEST(Quantities, DurationsHaveTwoUnitsAtMost) {
  EXPECT_EQ(short_duration(0), "0.0s");
  EXPECT_EQ(short_duration(9.94), "9.9s");
  EXPECT_EQ(short_duration(9.96), "10s");
  EXPECT_EQ(short_duration(59.4), "59s");
  EXPECT_EQ(short_duration(59.6), "1m00s");
  EXPECT_EQ(short_duration(3599.6), "1h00m");
  EXPECT_EQ(short_duration(3900), "1h05m");
  EXPECT_EQ(short_duration(86399), "23h59m");
  EXPECT_EQ(short_duration(3 * 86400 + 4 * 3600), "3d04h");
}

TEST(Quantities, PercentsAre100OnlyAtTheEnd) {
  EXPECT_EQ(percent(0), "0%");
  EXPECT_EQ(percent(0.29), "29%");
  EXPECT_EQ(percent(0.999), "99%");
  EXPECT_EQ(percent(1), "100%");
  EXPECT_EQ(percent(1.5), "100%");
}

TEST(Quantities, WhatDoesNotExistIsADash) {
  for (const double x : {kNaN, kInfinity, -kInfinity, -1.0}) {
    EXPECT_EQ(short_count(x), "-");
    EXPECT_EQ(short_bytes(x), "-");
    EXPECT_EQ(short_duration(x), "-");
    EXPECT_EQ(percent(x), "-");
  }
  EXPECT_EQ(decimal(kNaN, 4), "-");
  EXPECT_EQ(decimal(-0.5, 2), "-0.50");
  EXPECT_EQ(short_duration(1e300), "1000000000d00h");
}

}  // namespace
}  // namespace embers
