#include "storage/update_rules/clipping.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using Floats = std::vector<float>;

TableSpec clipped(const std::string& name, uint32_t dim, std::map<std::string, double> params) {
  TableSpec table = spec(name, dim);
  table.update_rule = {"sgd", std::move(params)};
  return table;
}

Floats clip_alone(const Clipper& clipper, TableId table, KeysView keys, Floats values) {
  SquareSums sums;
  clipper.add_squares(table, keys, values, sums);
  clipper.clip(table, keys, values, storage::values(sums));
  return values;
}

TEST(ExactSum, DoesNotDependOnOrderOrPortions) {
  std::mt19937_64 random(1);
  std::vector<double> terms;
  for (int i = 0; i < 1000; ++i) {
    const auto x =
        static_cast<float>(std::ldexp(1 + random() % 1000, static_cast<int>(random() % 200) - 100));
    terms.push_back(double{x} * x);
  }
  ExactSum forward, backward, front, back;
  for (const double x : terms) forward.add(x);
  for (size_t i = terms.size(); i-- > 0;) backward.add(terms[i]);
  for (size_t i = 0; i < terms.size(); ++i) (i % 3 == 0 ? front : back).add(terms[i]);
  back.add(front);
  EXPECT_EQ(forward.words(), backward.words());
  EXPECT_EQ(forward.words(), back.words());
  EXPECT_EQ(ExactSum::from_words(forward.words()).value(), forward.value());
}

TEST(ExactSum, IsExactWhereDoublesAreNot) {
  ExactSum sum;
  sum.add(std::ldexp(1.0, 200));
  for (int i = 0; i < 4; ++i) sum.add(std::ldexp(1.0, -290));
  ExactSum small;
  small.add(std::ldexp(1.0, -288));
  small.add(std::ldexp(1.0, 200));
  EXPECT_EQ(sum.words(), small.words());
  EXPECT_EQ(ExactSum().value(), 0);
  EXPECT_EQ(small.value(), std::ldexp(1.0, 200));
}

TEST(ExactSum, HoldsTheSquaresOfTheLeastAndTheGreatestFloat) {
  for (const float x : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()}) {
    ExactSum sum;
    sum.add(double{x} * x);
    EXPECT_EQ(sum.value(), double{x} * x);
  }
}

TEST(ExactSum, OfAnotherSizeIsRefused) {
  expect_error(ErrorCode::kBadFrame, {"3 words"}, [] { ExactSum::from_words(std::vector<uint64_t>(3)); });
}

TEST(Clipper, ValuesAreClippedElementByElement) {
  const TableSpec table = clipped("t", 2, {{"clipvalue", 1.5}});
  EXPECT_EQ(clip_alone(Clipper({&table, 1}), 0, ints({1, 2}), {1, -2, 3, -0.5}),
            (Floats{1, -1.5, 1.5, -0.5}));
}

TEST(Clipper, ANormIsThatOfAllRowsOfTheTable) {
  const TableSpec table = clipped("t", 2, {{"clipnorm", 2.5}});
  const Clipper clipper({&table, 1});
  EXPECT_EQ(clip_alone(clipper, 0, ints({1, 2}), {3, 0, 0, 4}), (Floats{1.5, 0, 0, 2}));
  EXPECT_EQ(clip_alone(clipper, 0, ints({1, 2}), {1, 0, 0, 2}), (Floats{1, 0, 0, 2})) << "within the norm";
  EXPECT_EQ(clip_alone(clipper, 0, ints({1}), {0, 0}), (Floats{0, 0}));
}

TEST(Clipper, ADenseParameterIsOneVariableHoweverManyChunksItHas) {
  TableSpec table = clipped(kDenseTable, 1, {{"clipnorm", 5}});
  table.key_kind = KeyKind::kBytes;
  const Keys keys(std::vector<std::string>{"a.weight#0", "a.weight#1", "a.bias#0"});
  EXPECT_EQ(clip_alone(Clipper({&table, 1}), 0, keys, {6, 8, 10}), (Floats{3, 4, 5}));
}

TEST(Clipper, TheGlobalNormIsOverAllTablesThatClipByIt) {
  const std::vector<TableSpec> tables = {clipped("a", 1, {{"global_clipnorm", 2.5}}), clipped("b", 1, {}),
                                         clipped("c", 1, {{"global_clipnorm", 1}})};
  const Clipper clipper(tables);
  Floats a{3}, b{100}, c{4};
  SquareSums sums;
  clipper.add_squares(0, ints({1}), a, sums);
  clipper.add_squares(1, ints({1}), b, sums);
  clipper.add_squares(2, ints({1}), c, sums);
  clipper.clip(0, ints({1}), a, values(sums));
  clipper.clip(1, ints({1}), b, values(sums));
  clipper.clip(2, ints({1}), c, values(sums));
  EXPECT_EQ(a[0], 1.5f);
  EXPECT_EQ(b[0], 100.0f);
  EXPECT_FLOAT_EQ(c[0], 0.8f);
}

TEST(Clipper, WhatIsNotFiniteDoesNotSpoilTheNorm) {
  const TableSpec table = clipped("t", 1, {{"clipnorm", 2.5}});
  const Floats clippeds =
      clip_alone(Clipper({&table, 1}), 0, ints({1, 2, 3}), {3, std::numeric_limits<float>::infinity(), 4});
  EXPECT_EQ(clippeds[0], 1.5f);
  EXPECT_EQ(clippeds[2], 2.0f);
}

TEST(Clipper, ANormThatNobodyGaveIsAnErrorNamingTheTable) {
  const TableSpec table = clipped("prices", 1, {{"clipnorm", 2.5}});
  Floats values{1};
  expect_error(ErrorCode::kInternal, {"'prices'"}, [&] {
    Clipper({&table, 1}).clip(0, ints({1}), values, {});
  });
}

}  // namespace
}  // namespace embers::storage
