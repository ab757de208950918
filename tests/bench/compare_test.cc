#include "bench/harness/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
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

// Gradients are small, and one that is wrong must not hide behind that.
TEST(CheckClose, GoesByTheSizeOfTheNumbers) {
  const std::vector<float> small{1e-5f, 2e-5f, 0}, wrong{1e-5f, 2.1e-5f, 0}, rounded{1e-5f, 2e-5f, 1e-10f};
  check_equal("gradients", {"a", small}, {"b", wrong}, 1e-3);
  expect_error(ErrorCode::kInternal, {"gradients", "number 1"}, [&] {
    check_close("gradients", SideResult{"a", small}, SideResult{"b", wrong}, 1e-3);
  });
  check_close("gradients", SideResult{"a", small}, SideResult{"b", rounded}, 1e-3);
}

TEST(CheckClose, TakesRowsInAnyOrder) {
  const std::vector<int64_t> ascending{2, 5}, descending{5, 2}, others{2, 6};
  const std::vector<float> there{1, 2, 3, 4}, back{3, 4, 1, 2};
  check_close("rows", SideRows{"a", ascending, there}, SideRows{"b", descending, back}, 0);
  expect_error(ErrorCode::kInternal, {"rows", "number 0", "1 with a", "3 with b"}, [&] {
    check_close("rows", SideRows{"a", ascending, there}, SideRows{"b", ascending, back}, 0);
  });
  expect_error(ErrorCode::kInternal, {"row 5 is not the same"}, [&] {
    check_close("rows", SideRows{"a", ascending, there}, SideRows{"b", others, there}, 0);
  });
  expect_error(ErrorCode::kInternal, {"a has 2 rows, b has 1"}, [&] {
    check_close("rows", SideRows{"a", ascending, there},
                SideRows{"b", std::span(ascending).first(1), std::span(there).first(2)}, 0);
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
