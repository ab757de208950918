#include "actors/routing/route.h"

#include <gtest/gtest.h>

#include <random>

#include "actors/owner/accumulate.h"
#include "tests/support/actors.h"

namespace embers {
namespace {

using testing_support::table;

Keys random_keys(std::mt19937_64& random, KeyKind kind, size_t n) {
  Keys keys(kind);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t x = random();
    if (kind == KeyKind::kInt64)
      keys.push_back(static_cast<int64_t>(x));
    else
      keys.push_back(std::string_view(std::to_string(x)));
  }
  return keys;
}

std::vector<TableSpec> specs() {
  std::vector<TableSpec> tables(6);
  for (TableSpec& t : tables) t.dim = 3;
  return tables;
}

TEST(Route, GivesEveryKeyToTheOwnerOfItsBucketInOrder) {
  std::mt19937_64 random(1);
  for (const size_t owners : {1, 2, 3, 7}) {
    const OwnerMap map = even_owner_map(static_cast<uint32_t>(owners), 64);
    const Keys ints = random_keys(random, KeyKind::kInt64, 300),
               strings = random_keys(random, KeyKind::kBytes, 200);
    const std::vector<TableKeyList> lists{{5, ints}, {2, strings}};
    const Routed routed = route(lists, specs(), map, owners);
    ASSERT_EQ(routed.size(), owners);
    std::vector<size_t> seen(2);
    for (size_t owner = 0; owner < owners; ++owner) {
      for (const RoutedTable& part : routed[owner]) {
        EXPECT_EQ(part.table, lists[part.source].table);
        EXPECT_TRUE(std::is_sorted(part.positions.begin(), part.positions.end()));
        ASSERT_EQ(part.keys.size(), part.positions.size());
        for (size_t i = 0; i < part.keys.size(); ++i) {
          const KeysView source = lists[part.source].keys;
          EXPECT_EQ(to_string(part.keys, i), to_string(source, part.positions[i]));
          EXPECT_EQ(owner_of(map, hash_key(source, part.positions[i])), owner);
          ++seen[part.source];
        }
      }
    }
    EXPECT_EQ(seen, (std::vector<size_t>{300, 200})) << "positions are distinct, so nothing is missing";
  }
}

TEST(Route, LeavesOutTablesWithoutAKeyAndKeepsOwnersWithNone) {
  const Keys one(std::vector<int64_t>{42}), none;
  const std::vector<TableKeyList> lists{{0, none}, {1, one}};
  const Routed routed = route(lists, specs(), even_owner_map(4, 64), 4);
  size_t parts = 0;
  for (const auto& owner : routed) parts += owner.size();
  EXPECT_EQ(routed.size(), 4);
  EXPECT_EQ(parts, 1);
}

TEST(Route, WhatIsCollectedAndScatteredIsBackInItsPlace) {
  std::mt19937_64 random(2);
  const uint32_t dim = 3;
  const Keys keys = random_keys(random, KeyKind::kInt64, 100);
  std::vector<float> values(keys.size() * dim);
  std::iota(values.begin(), values.end(), 0.0f);
  const TableKeyList list{0, keys};
  for (const uint32_t owners : {1, 2, 3}) {
    std::vector<float> back(values.size(), -1);
    for (const auto& owner : route({&list, 1}, specs(), even_owner_map(owners, 64), owners))
      for (const RoutedTable& part : owner) {
        std::vector<float> rows(part.keys.size() * dim);
        collect(values, dim, part.positions, rows);
        for (size_t i = 0; i < part.positions.size(); ++i)
          EXPECT_EQ(rows[i * dim], values[part.positions[i] * dim]);
        scatter({NumberType::kFloat32, rows, {}}, dim, part.positions, back);
      }
    EXPECT_EQ(values, back);
  }
}

TableSlices slices(TableId id, const Keys& keys, const std::vector<float>& values) {
  return {id, keys, static_cast<uint32_t>(values.size() / keys.size()), values};
}

TEST(Accumulate, AddsWeightedGradientsOfEachKeyInOrderOfFirstAppearance) {
  const std::vector<TableSpec> specs{table("a", 2), table("b", 1, KeyKind::kBytes)};
  const Keys k1(std::vector<int64_t>{7, 3}), k2(std::vector<int64_t>{3, 9}),
      s(std::vector<std::string>{"x", ""});
  const std::vector<float> g1{1, 2, 3, 4}, g2{10, 20, 30, 40}, gs{5, 6};
  const std::vector<WeightedSlices> parts{{0.5f, {slices(0, k1, g1)}},
                                          {2, {slices(1, s, gs), slices(0, k2, g2)}}};
  const auto sums = accumulate(parts, specs);
  ASSERT_EQ(sums.size(), 2);
  EXPECT_EQ(sums[0].keys, Keys(std::vector<int64_t>{7, 3, 9}));
  EXPECT_EQ(sums[0].values, (std::vector<float>{0.5, 1, 21.5, 42, 60, 80}));
  EXPECT_EQ(sums[1].table, 1);
  EXPECT_EQ(sums[1].values, (std::vector<float>{10, 12}));
}

TEST(Accumulate, AddsInTheOrderOfThePartsToTheBit) {
  const std::vector<TableSpec> specs{table("a", 1)};
  const Keys key(std::vector<int64_t>{1});
  const std::vector<float> big{1e8f}, small{1}, minus{-1e8f};
  const auto sum = [&](std::vector<const std::vector<float>*> order) {
    std::vector<WeightedSlices> parts;
    for (const auto* g : order) parts.push_back({1, {slices(0, key, *g)}});
    return accumulate(parts, specs)[0].values[0];
  };
  EXPECT_EQ(sum({&big, &small, &minus}), 0);
  EXPECT_EQ(sum({&big, &minus, &small}), 1);
}

TEST(Accumulate, OfBuffersTheLastStandsUnweighted) {
  std::vector<TableSpec> specs{table("_buffers", 1, KeyKind::kBytes)};
  specs[0].accumulation = Accumulation::kLast;
  const Keys key(std::vector<std::string>{"norm.mean#0"});
  const std::vector<float> first{1}, last{3};
  const auto sums = accumulate(
      std::vector<WeightedSlices>{{0.5f, {slices(0, key, first)}}, {0.25f, {slices(0, key, last)}}}, specs);
  EXPECT_EQ(sums[0].values, (std::vector<float>{3}));
}

TEST(Accumulate, OfNothingIsNothing) {
  EXPECT_TRUE(accumulate({}, std::vector<TableSpec>{table("a", 1)}).empty());
}

}  // namespace
}  // namespace embers
