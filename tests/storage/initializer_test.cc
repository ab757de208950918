#include "storage/initializers/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "schema/partition.h"
#include "storage/initializers/normal_quantile.h"
#include "storage/initializers/random_words.h"
#include "tests/storage/store_testing.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using Rows = std::vector<float>;

TableSpec with(const std::string& initializer, std::map<std::string, double> params = {}, uint32_t dim = 8) {
  TableSpec table = spec("t", dim);
  table.initializer = {initializer, std::move(params)};
  return table;
}

Keys first_ints(int64_t n) {
  Keys keys;
  for (int64_t i = 0; i < n; ++i) keys.push_back(i);
  return keys;
}

Rows fill(const TableSpec& table, const Keys& keys, uint64_t seed = 1) {
  Rows rows(keys.size() * table.dim, -77);
  Initializer::make(seed, table)->fill(keys, rows);
  return rows;
}

// An owner's columns of a row, as part_of() describes them.
TEST(Initializer, OfSomeColumnsGivesThoseOfWholeRows) {
  const Keys keys = first_ints(20);
  for (const std::string& name : initializer_names())
    for (const uint32_t dim : {1u, 3u, 7u, 10u, 64u})
      for (const uint32_t owners : {2u, 3u, 5u}) {
        TableSpec table = with(name, {}, dim);
        table.partition = Partition::kEncoding;
        const Rows whole = fill(table, keys);
        for (uint32_t owner = 0; owner < owners_with_columns(dim, owners); ++owner) {
          const TableSpec part = part_of(table, owner, owners);
          const Rows rows = fill(part, keys);
          for (size_t i = 0; i < keys.size(); ++i)
            for (size_t c = 0; c < part.dim; ++c)
              ASSERT_EQ(rows[i * part.dim + c], whole[i * dim + part.first_column + c]) << name;
        }
      }
}

struct Moments {
  double mean = 0, stddev = 0, least, most;
};

Moments moments(const Rows& values) {
  Moments m{0, 0, *std::min_element(values.begin(), values.end()),
            *std::max_element(values.begin(), values.end())};
  for (const float v : values) m.mean += v / static_cast<double>(values.size());
  for (const float v : values) m.stddev += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  m.stddev = std::sqrt(m.stddev);
  return m;
}

// 200 000 values: a mean is right within 5 standard errors, a deviation within 1 %.
void expect_moments(const TableSpec& table, double mean, double stddev) {
  const Moments m = moments(fill(table, first_ints(200'000 / table.dim)));
  EXPECT_NEAR(m.mean, mean, 5 * stddev / std::sqrt(200'000.0)) << table.initializer.name;
  EXPECT_NEAR(m.stddev, stddev, stddev / 100) << table.initializer.name;
}

void expect_uniform(const TableSpec& table, double low, double high) {
  expect_moments(table, (low + high) / 2, (high - low) / std::sqrt(12));
  const Moments m = moments(fill(table, first_ints(200'000 / table.dim)));
  const double margin = (high - low) / 1000;
  EXPECT_GE(m.least, static_cast<float>(low));
  EXPECT_LT(m.least, low + margin);
  EXPECT_LT(m.most, static_cast<float>(high));
  EXPECT_GT(m.most, high - margin);
}

// Cut at two of `sigma`, a normal's deviation shrinks to 0.8796 of it.
void expect_truncated(const TableSpec& table, double mean, double sigma) {
  expect_moments(table, mean, 0.87962566103423978 * sigma);
  const Moments m = moments(fill(table, first_ints(200'000 / table.dim)));
  EXPECT_GE(m.least, static_cast<float>(mean - 2 * sigma));
  EXPECT_LT(m.least, mean - 1.99 * sigma);
  EXPECT_LE(m.most, static_cast<float>(mean + 2 * sigma));
  EXPECT_GT(m.most, mean + 1.99 * sigma);
}

TEST(Philox, GivesTheAnswersOfItsAuthors) {
  using Words = std::array<uint32_t, 4>;
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxBlocks, AreThoseOfOneAfterAnother) {
  constexpr PhiloxKey kKey = {0xa4093822, 0x299f31d0};
  for (const size_t n : {size_t{1}, size_t{15}, size_t{17}, PhiloxBlocks::kMost}) {
    PhiloxBlocks blocks;
    const auto counter = [](size_t i) {
      const auto x = static_cast<uint32_t>(i * 0x9E3779B9);
      return std::array<uint32_t, 4>{x, ~x, x << 7, x ^ 0x85a308d3};
    };
    for (size_t i = 0; i < n; ++i) {
      const auto [x0, x1, x2, x3] = counter(i);
      blocks.word0[i] = x0, blocks.word1[i] = x1, blocks.word2[i] = x2, blocks.word3[i] = x3;
    }
    std::vector<uint32_t> words(4 * n), expected;
    blocks.draw(n, kKey, words.data());
    for (size_t i = 0; i < n; ++i)
      for (const uint32_t word : philox(counter(i), kKey)) expected.push_back(word);
    EXPECT_EQ(words, expected) << n;
  }
}

double normal_quantile(double p) {
  double x;
  normal_quantiles(&p, 1, &x);
  return x;
}

TEST(NormalQuantile, InvertsTheNormalDistribution) {
  for (double p = 0x1p-34; p < 0.5; p *= 1.01) {
    const double x = normal_quantile(p);
    EXPECT_NEAR(std::erfc(-x / std::sqrt(2.0)) / 2 / p, 1, 1e-13) << p;
  }
}

TEST(NormalQuantile, IsSymmetric) {
  EXPECT_EQ(normal_quantile(0.5), 0);
  for (const double p : {0.25, 0.0625, 0x1p-20, 0x1p-34})
    EXPECT_EQ(normal_quantile(1 - p), -normal_quantile(p)) << p;
}

TEST(NormalQuantile, DoesNotDependOnTheOthersAskedFor) {
  std::vector<double> p;
  for (size_t i = 0; i < kMostQuantiles; ++i) p.push_back((static_cast<double>(i * i % 257) + 0.5) / 257);
  for (const size_t n : {size_t{1}, size_t{9}, size_t{100}, kMostQuantiles}) {
    std::vector<double> x(n);
    normal_quantiles(p.data(), n, x.data());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(x[i], normal_quantile(p[i])) << n << " " << i;
  }
}

TEST(Initializer, ConstantsAreConstant) {
  EXPECT_EQ(fill(with("zeros"), first_ints(3)), Rows(24, 0));
  EXPECT_EQ(fill(with("ones"), first_ints(3)), Rows(24, 1));
  EXPECT_EQ(fill(with("constant"), first_ints(3)), Rows(24, 0));
  EXPECT_EQ(fill(with("constant", {{"value", -2.5}}), first_ints(3)), Rows(24, -2.5));
}

TEST(Initializer, UniformHasKerasDefaultsAndBounds) {
  for (const char* name : {"uniform", "random_uniform"}) {
    expect_uniform(with(name), -0.05, 0.05);
    expect_uniform(with(name, {{"minval", 3}, {"maxval", 5}}), 3, 5);
    expect_uniform(with(name, {{"minval", 0}}), 0, 0.05);
  }
}

TEST(Initializer, ANarrowUniformStaysBelowItsUpperBound) {
  const Rows rows = fill(with("uniform", {{"minval", 1e6}, {"maxval", 1e6 + 0.125}}), first_ints(10'000));
  EXPECT_LT(*std::max_element(rows.begin(), rows.end()), static_cast<float>(1e6 + 0.125));
}

TEST(Initializer, AUniformOfOneValueGivesIt) {
  EXPECT_EQ(fill(with("uniform", {{"minval", 0.5}, {"maxval", 0.5}}), first_ints(2)), Rows(16, 0.5));
}

TEST(Initializer, NormalHasKerasDefaults) {
  for (const char* name : {"normal", "random_normal"}) {
    expect_moments(with(name), 0, 0.05);
    expect_moments(with(name, {{"mean", 2}, {"stddev", 0.5}}), 2, 0.5);
  }
}

TEST(Initializer, NormalHasTheTailsOfANormal) {
  const Rows rows = fill(with("normal", {{"stddev", 1}}), first_ints(25'000));
  for (const double sigmas : {1.0, 2.0, 3.0}) {
    const auto beyond =
        std::count_if(rows.begin(), rows.end(), [&](float x) { return std::fabs(x) > sigmas; });
    const double expected = std::erfc(sigmas / std::sqrt(2.0)) * 200'000;
    EXPECT_NEAR(static_cast<double>(beyond), expected, 5 * std::sqrt(expected)) << sigmas;
  }
}

TEST(Initializer, TruncatedNormalEndsAtTwoSigma) {
  expect_truncated(with("truncated_normal"), 0, 0.05);
  expect_truncated(with("truncated_normal", {{"mean", 1}, {"stddev", 0.5}}), 1, 0.5);
}

TEST(Initializer, ScaledOnesUseTheDimAsBothFans) {
  expect_uniform(with("glorot_uniform"), -std::sqrt(3.0 / 8), std::sqrt(3.0 / 8));
  expect_uniform(with("he_uniform"), -std::sqrt(6.0 / 8), std::sqrt(6.0 / 8));
  expect_uniform(with("lecun_uniform"), -std::sqrt(3.0 / 8), std::sqrt(3.0 / 8));
  constexpr double kCut = .87962566103423978;
  expect_truncated(with("glorot_normal"), 0, std::sqrt(1.0 / 8) / kCut);
  expect_truncated(with("he_normal"), 0, std::sqrt(2.0 / 8) / kCut);
  expect_truncated(with("lecun_normal"), 0, std::sqrt(1.0 / 8) / kCut);
}

TEST(Initializer, ScaledOnesUseInputDimAsFanInWhenItIsKnown) {
  const auto known = [](const char* name) {
    TableSpec table = with(name);
    table.input_dim = 100;
    return table;
  };
  expect_uniform(known("glorot_uniform"), -std::sqrt(3.0 / 54), std::sqrt(3.0 / 54));
  expect_uniform(known("he_uniform"), -std::sqrt(6.0 / 100), std::sqrt(6.0 / 100));
  expect_uniform(known("lecun_uniform"), -std::sqrt(3.0 / 100), std::sqrt(3.0 / 100));
  constexpr double kCut = .87962566103423978;
  expect_truncated(known("glorot_normal"), 0, std::sqrt(1.0 / 54) / kCut);
  expect_truncated(known("he_normal"), 0, std::sqrt(2.0 / 100) / kCut);
  expect_truncated(known("lecun_normal"), 0, std::sqrt(1.0 / 100) / kCut);
}

TEST(Initializer, ARowDoesNotDependOnTheOtherKeysAskedFor) {
  for (const std::string& name : initializer_names()) {
    const Rows all = fill(with(name), ints({3, -9, 1'000'000'007, 0}));
    EXPECT_EQ(fill(with(name), ints({1'000'000'007})), Rows(all.begin() + 16, all.begin() + 24)) << name;
    EXPECT_EQ(fill(with(name), ints({0, 3})), ([&] {
                Rows rows(all.begin() + 24, all.end());
                rows.insert(rows.end(), all.begin(), all.begin() + 8);
                return rows;
              }()))
        << name;
  }
}

// Rows that end within the blocks that are drawn at once, and rows that need several draws.
TEST(Initializer, ManyRowsAreThoseOfEachAlone) {
  const Keys keys = first_ints(70);
  std::vector<uint8_t> skip(keys.size());
  for (size_t i = 0; i < skip.size(); ++i) skip[i] = i % 7 == 3;
  for (const char* name : {"ones", "uniform", "normal", "glorot_normal"})
    for (const uint32_t dim : {1u, 5u, 13u, 64u, 255u, 256u, 257u, 1001u}) {
      const TableSpec table = with(name, {}, dim);
      Rows rows(keys.size() * dim, -77);
      Initializer::make(1, table)->fill(keys, rows, skip);
      for (size_t i = 0; i < keys.size(); ++i)
        ASSERT_EQ(Rows(&rows[i * dim], &rows[i * dim] + dim),
                  skip[i] ? Rows(dim, -77) : fill(table, ints({static_cast<int64_t>(i)})))
            << name << " " << dim << " " << i;
    }
}

TEST(Initializer, AColumnDoesNotDependOnTheDim) {
  for (const char* name : {"uniform", "normal", "truncated_normal"}) {
    const Rows wide = fill(with(name, {}, 19), ints({42}));
    for (const uint32_t dim : {1, 3, 4, 5, 16})
      EXPECT_EQ(fill(with(name, {}, dim), ints({42})), Rows(wide.begin(), wide.begin() + dim)) << name << dim;
  }
}

TEST(Initializer, TwoInitializersOfOneSpecAgree) {
  for (const std::string& name : initializer_names())
    EXPECT_EQ(fill(with(name), first_ints(10)), fill(with(name), first_ints(10))) << name;
}

TEST(Initializer, EverySeedTableKeyAndColumnHasItsOwnValues) {
  std::set<float> seen;
  size_t drawn = 0;
  const auto draw = [&](uint64_t seed, const std::string& table) {
    TableSpec t = with("normal", {{"stddev", 1}}, 5);
    t.name = table;
    const Rows rows = fill(t, ints({0, 1, -1, 256, int64_t{1} << 32}), seed);
    seen.insert(rows.begin(), rows.end());
    drawn += rows.size();
  };
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{2}, UINT64_MAX, uint64_t{1} << 32})
    for (const char* table : {"", "t", "t1", "u"}) draw(seed, table);
  EXPECT_EQ(seen.size(), drawn);
}

TEST(Initializer, StringKeysHaveTheirOwnRows) {
  TableSpec table = with("uniform");
  table.key_kind = KeyKind::kBytes;
  const Rows rows = fill(table, strings({"a", "b", "", "ab"}));
  EXPECT_EQ(std::set<float>(rows.begin(), rows.end()).size(), rows.size());
  EXPECT_EQ(fill(table, strings({"ab"})), Rows(rows.begin() + 24, rows.end()));
}

// The values are part of what a job promises: a changed one makes old and new processes disagree.
TEST(Initializer, ValuesNeverChange) {
  EXPECT_EQ(fill(with("uniform", {}, 5), ints({42}), 7),
            (Rows{0x1.730266p-9f, 0x1.8244cp-6f, 0x1.23a14cp-7f, -0x1.42509ap-8f, 0x1.30c78p-5f}));
  EXPECT_EQ(fill(with("normal", {}, 5), ints({42}), 7),
            (Rows{0x1.d161e6p-9f, 0x1.022e92p-5f, 0x1.7097p-7f, -0x1.94fd76p-8f, 0x1.d159f2p-5f}));
  EXPECT_EQ(fill(with("glorot_normal", {}, 5), ints({42}), 7),
            (Rows{0x1.1a47bcp-5f, 0x1.3741p-2f, 0x1.bed5dep-4f, -0x1.eb391ap-5f, 0x1.139222p-1f}));
}

TEST(Initializer, SkippedRowsAreLeftAlone) {
  for (const char* name : {"ones", "uniform"}) {
    const TableSpec table = with(name, {}, 2);
    Rows rows(6, -77);
    Initializer::make(1, table)->fill(ints({1, 2, 3}), rows, std::vector<uint8_t>{1, 0, 1});
    const Rows second = fill(table, ints({2}));
    EXPECT_EQ(rows, (Rows{-77, -77, second[0], second[1], -77, -77}));
  }
}

TEST(Initializer, NoKeysNeedNoRoom) { EXPECT_EQ(fill(with("normal"), Keys()), Rows()); }

TEST(Initializer, AllNamesOfKerasAreKnown) {
  EXPECT_EQ(initializer_names(),
            (std::vector<std::string>{"zeros", "ones", "constant", "uniform", "random_uniform", "normal",
                                      "random_normal", "truncated_normal", "glorot_uniform", "glorot_normal",
                                      "he_uniform", "he_normal", "lecun_uniform", "lecun_normal"}));
}

void expect_refused(const TableSpec& table, std::initializer_list<std::string> parts) {
  expect_error(ErrorCode::kInvalid, parts, [&] { Initializer::make(1, table); });
}

TEST(Initializer, AnUnknownNameSuggestsTheNearest) {
  expect_refused(with("glorot_unifrom"), {"table 't'", "'glorot_unifrom'", "did you mean 'glorot_uniform'?"});
  expect_refused(with(""), {"table 't'", "known: zeros"});
}

TEST(Initializer, AnUnknownParameterSuggestsTheNearest) {
  expect_refused(with("uniform", {{"minvall", 0}}),
                 {"table 't'", "'uniform'", "'minvall'", "did you mean 'minval'?"});
  expect_refused(with("normal", {{"minval", 0}}), {"table 't'", "'normal'", "known: mean, stddev"});
  for (const char* name : {"zeros", "ones", "glorot_uniform", "he_normal"})
    expect_refused(with(name, {{"value", 0}}), {"table 't'", name, "takes no parameters", "'value'"});
}

TEST(Initializer, ParametersOutOfRangeAreRefused) {
  expect_refused(with("uniform", {{"minval", 1}, {"maxval", 0}}), {"table 't'", "minval = 1", "maxval = 0"});
  expect_refused(with("normal", {{"stddev", -1}}), {"table 't'", "stddev = -1"});
  expect_refused(with("truncated_normal", {{"stddev", -1}}), {"stddev = -1"});
  expect_refused(with("constant", {{"value", NAN}}), {"table 't'", "value"});
  expect_refused(with("normal", {{"mean", INFINITY}}), {"table 't'", "mean"});
}

TEST(Initializer, ListsThatDoNotFitAreRefused) {
  const auto uniform = Initializer::make(1, with("uniform", {}, 2));
  Rows rows(4);
  const auto refused = [](const auto& action) { expect_error(ErrorCode::kInvalid, {"'t'"}, action); };
  refused([&] { uniform->fill(ints({1}), rows); });
  refused([&] { uniform->fill(ints({1, 2, 3}), rows); });
  refused([&] { uniform->fill(ints({1, 2}), rows, std::vector<uint8_t>{1}); });
  refused([&] { uniform->fill(strings({"a", "b"}), rows); });
}

}  // namespace
}  // namespace embers::storage
