#include "bench/harness/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;

const std::vector<float> kRows{1, 2, 3};

TEST(CheckEqual, AllowsWhatIsNear) {
  check_equal("rows", {"a", kRows}, {"b", kRows});
  check_equal("rows", {"a", kRows}, {"b", std::vector<float>{1, 2, 3.003f}}, 1e-3);
}

TEST(CheckEqual, NamesTheFirstPlaceThatDiffers) {
  expect_error(ErrorCode::kInternal, {"rows", "number 1", "2 with a", "2.5 with b"}, [] {
    check_equal("rows", {"a", kRows}, {"b", std::vector<float>{1, 2.5f, 9}}, 1e-3);
  });
}

TEST(CheckEqual, TakesNaNForDifferent) {
  const std::vector<float> nan{1, NAN, 3};
  expect_error(ErrorCode::kInternal, {"number 1"}, [&] { check_equal("rows", {"a", nan}, {"b", nan}, 1); });
}

TEST(CheckEqual, ComparesAllOfBoth) {
  expect_error(ErrorCode::kInternal, {"3 numbers", "2"}, [] {
    check_equal("rows", {"a", kRows}, {"b", std::vector<float>{1, 2}});
  });
}

TEST(Checksum, DependsOnEveryBitAndOnTheOrder) {
  EXPECT_EQ(checksum(kRows), checksum(std::vector<float>{1, 2, 3}));
  EXPECT_NE(checksum(kRows), checksum(std::vector<float>{2, 1, 3}));
  EXPECT_NE(checksum(kRows), checksum(std::vector<float>{1, 2, std::nextafter(3.0f, 4.0f)}));
  EXPECT_NE(checksum(kRows), checksum(std::vector<float>{1, 2, 3, 0}));
}

}  // namespace
}  // namespace embers
