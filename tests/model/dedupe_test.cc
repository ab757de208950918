#include "model/lookup/dedupe.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

namespace embers {
namespace {

std::vector<int32_t> places(KeyIndex& index, KeysView keys, bool skip_zero = false) {
  std::vector<int32_t> place(keys.size());
  index.add(keys, skip_zero, place);
  return place;
}

Ids ids_of(Keys keys) {
  Ids ids;
  ids.offsets.push_back(static_cast<int64_t>(keys.size()));
  ids.keys = std::move(keys);
  return ids;
}

TEST(KeyIndex, GivesKeysPlacesInOrderOfFirstAppearance) {
  KeyIndex index;
  EXPECT_EQ(places(index, Keys(std::vector<int64_t>{7, -3, 7, 0, -3})),
            (std::vector<int32_t>{0, 1, 0, 2, 1}));
  EXPECT_EQ(index.unique(), Keys(std::vector<int64_t>{7, -3, 0}));
  EXPECT_EQ(places(index, Keys(std::vector<int64_t>{0, 9})), (std::vector<int32_t>{2, 3}));
}

TEST(KeyIndex, HoldsTheExtremeKeys) {
  const int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  KeyIndex index;
  EXPECT_EQ(places(index, Keys(std::vector<int64_t>{low, high, -1, 0, high, low})),
            (std::vector<int32_t>{0, 1, 2, 3, 1, 0}));
}

TEST(KeyIndex, ComparesByteStringsInFull) {
  using std::string;
  KeyIndex index(KeyKind::kBytes);
  const string long_a(1000, 'x'), long_b = long_a + "y";
  const Keys keys(std::vector<string>{"a", "", "ab", string("a\0", 2), "a", long_a, long_b, "", long_a});
  EXPECT_EQ(places(index, keys), (std::vector<int32_t>{0, 1, 2, 3, 0, 4, 5, 1, 4}));
}

TEST(KeyIndex, LeavesOutPaddingWhenAsked) {
  KeyIndex ints;
  EXPECT_EQ(places(ints, Keys(std::vector<int64_t>{0, 5, 0}), true),
            (std::vector<int32_t>{kMasked, 0, kMasked}));
  EXPECT_EQ(ints.unique(), Keys(std::vector<int64_t>{5}));
  KeyIndex strings(KeyKind::kBytes);
  EXPECT_EQ(places(strings, Keys(std::vector<std::string>{"", "0", ""}), true),
            (std::vector<int32_t>{kMasked, 0, kMasked}));
}

TEST(KeyIndex, ForgetsEverythingOnStart) {
  KeyIndex index;
  places(index, Keys(std::vector<int64_t>{1, 2, 3}));
  index.start(KeyKind::kBytes);
  EXPECT_TRUE(index.unique().empty());
  EXPECT_EQ(places(index, Keys(std::vector<std::string>{"3"})), (std::vector<int32_t>{0}));
}

TEST(KeyIndex, TakeHandsTheKeysOverAndForgetsThem) {
  KeyIndex index;
  places(index, Keys(std::vector<int64_t>{4, 5}));
  EXPECT_EQ(index.take(), Keys(std::vector<int64_t>{4, 5}));
  EXPECT_EQ(places(index, Keys(std::vector<int64_t>{5})), (std::vector<int32_t>{0}));
}

// Growth while keys are added in many pieces; strides that a weak hash would put into few slots.
TEST(KeyIndex, AgreesWithAMapOnManyKeys) {
  std::mt19937_64 random(1);
  for (const int64_t stride : {int64_t{1}, int64_t{1} << 20, int64_t{1} << 44}) {
    KeyIndex index;
    std::map<int64_t, int32_t> reference;
    for (int piece = 0; piece < 50; ++piece) {
      std::vector<int64_t> keys(400);
      for (int64_t& key : keys) key = static_cast<int64_t>(random() % 5000) * stride;
      const std::vector<int32_t> got = places(index, Keys(keys));
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto next = static_cast<int32_t>(reference.size());
        EXPECT_EQ(got[i], reference.try_emplace(keys[i], next).first->second);
      }
    }
    EXPECT_EQ(index.unique().size(), reference.size());
  }
}

TEST(KeyIndex, AgreesWithAMapOnManyStrings) {
  std::mt19937_64 random(2);
  KeyIndex index(KeyKind::kBytes);
  std::map<std::string, int32_t> reference;
  for (int piece = 0; piece < 20; ++piece) {
    Keys keys(KeyKind::kBytes);
    for (int i = 0; i < 300; ++i) keys.push_back(std::to_string(random() % 3000));
    const std::vector<int32_t> got = places(index, keys);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto next = static_cast<int32_t>(reference.size());
      EXPECT_EQ(got[i], reference.try_emplace(std::string(keys.view().bytes_at(i)), next).first->second);
    }
  }
}

TEST(Dedupe, MergesTheFeaturesAndLayersOfATable) {
  const LookupPlan plan{{KeyKind::kInt64, KeyKind::kBytes},
                        {{0, 0, 1, false}, {0, 0, 0, false}, {0, 2, 0, true}, {1, 1, 2, false}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(std::vector<int64_t>{0, 5, 6})), ids_of(Keys(std::vector<int64_t>{6, 9})),
                   ids_of(Keys(std::vector<std::string>{"b", "a", "b"}))};
  const Lookups lookups = dedupe(plan, minibatch);
  ASSERT_EQ(lookups.tables.size(), 2u);
  EXPECT_EQ(lookups.tables[0].table, 0u);
  EXPECT_EQ(lookups.tables[0].unique, Keys(std::vector<int64_t>{6, 9, 0, 5}));
  EXPECT_EQ(lookups.tables[1].unique, Keys(std::vector<std::string>{"b", "a"}));
  ASSERT_EQ(lookups.inverses.size(), 4u);
  EXPECT_EQ(lookups.inverses[0].position, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(lookups.inverses[1].position, (std::vector<int32_t>{2, 3, 0}));
  EXPECT_EQ(lookups.inverses[2].position, (std::vector<int32_t>{kMasked, 3, 0}));
  EXPECT_EQ(lookups.inverses[2].layer, 2u);
  EXPECT_EQ(lookups.inverses[3].position, (std::vector<int32_t>{0, 1, 0}));
}

// A wide and a deep table over the same features, and one that leaves out padding.
TEST(Dedupe, GivesTablesOfTheSameFeaturesTheSameKeysAndPlaces) {
  const LookupPlan plan{{KeyKind::kInt64, KeyKind::kInt64, KeyKind::kInt64, KeyKind::kInt64},
                        {{0, 0, 0, false},
                         {0, 0, 1, false},
                         {1, 1, 0, false},
                         {1, 2, 1, false},
                         {2, 3, 0, true},
                         {2, 3, 1, false},
                         {3, 4, 0, false}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(std::vector<int64_t>{4, 0, 4})), ids_of(Keys(std::vector<int64_t>{9, 4}))};
  const Lookups lookups = dedupe(plan, minibatch);
  ASSERT_EQ(lookups.tables.size(), 4u);
  const std::vector<std::vector<int64_t>> unique{{4, 0, 9}, {4, 0, 9}, {4, 9}, {4, 0}};
  for (TableId t = 0; t < 4; ++t) {
    EXPECT_EQ(lookups.tables[t].table, t);
    EXPECT_EQ(lookups.tables[t].unique, Keys(unique[t]));
  }
  const std::vector<std::vector<int32_t>> places{{0, 1, 0},       {2, 0}, {0, 1, 0}, {2, 0},
                                                 {0, kMasked, 0}, {1, 0}, {0, 1, 0}};
  ASSERT_EQ(lookups.inverses.size(), places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(lookups.inverses[i].position, places[i]);
    EXPECT_EQ(lookups.inverses[i].layer, plan.sources[i].layer);
    EXPECT_EQ(lookups.inverses[i].feature, plan.sources[i].feature);
  }
}

// Both with slots that fit the cache and with more.
TEST(KeyIndex, AgreesWithAMapWhenPaddingIsLeftOut) {
  std::mt19937_64 random(4);
  for (const size_t count : {size_t{5000}, size_t{200'000}}) {
    KeyIndex index;
    std::vector<int64_t> keys(count);
    for (int64_t& key : keys) key = static_cast<int64_t>(random() % count) - 3;
    const std::vector<int32_t> got = places(index, Keys(keys), true);
    std::map<int64_t, int32_t> reference;
    std::vector<int64_t> unique;
    for (size_t i = 0; i < count; ++i) {
      if (keys[i] == 0) {
        ASSERT_EQ(got[i], kMasked);
        continue;
      }
      const auto [at, fresh] = reference.try_emplace(keys[i], static_cast<int32_t>(reference.size()));
      if (fresh) unique.push_back(keys[i]);
      ASSERT_EQ(got[i], at->second);
    }
    EXPECT_EQ(index.unique(), Keys(unique));
  }
}

TEST(Dedupe, LeavesOutIdsOfNoWeightWhereTheCombinerDoes) {
  const LookupPlan plan{{KeyKind::kInt64, KeyKind::kBytes},
                        {{0, 0, 0, true, true}, {0, 1, 0, false, false}, {1, 2, 1, false, true}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(std::vector<int64_t>{0, 5, 6, 5})),
                   ids_of(Keys(std::vector<std::string>{"b", "a"}))};
  minibatch.ids[0].weights = {1, 2, 0, -1};
  minibatch.ids[1].weights = {0, 1};
  const Lookups lookups = dedupe(plan, minibatch);
  EXPECT_EQ(lookups.inverses[0].position, (std::vector<int32_t>{kMasked, 0, kMasked, kMasked}));
  EXPECT_EQ(lookups.inverses[1].position, (std::vector<int32_t>{1, 0, 2, 0}));
  EXPECT_EQ(lookups.tables[0].unique, Keys(std::vector<int64_t>{5, 0, 6}));
  EXPECT_EQ(lookups.tables[1].unique, Keys(std::vector<std::string>{"a"}));
}

// Without weights, tables whose combiners differ look up the same.
TEST(Dedupe, GivesTablesOfOneFeatureWhatTheirWeightsLeaveThem) {
  const LookupPlan plan{{KeyKind::kInt64, KeyKind::kInt64}, {{0, 0, 0, {}}, {1, 1, 0, {false, true}}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(std::vector<int64_t>{4, 7, 4}))};
  for (const bool weighed : {false, true}) {
    if (weighed) minibatch.ids[0].weights = {0, 1, 1};
    const Lookups lookups = dedupe(plan, minibatch);
    ASSERT_EQ(lookups.tables.size(), 2u);
    EXPECT_EQ(lookups.tables[0].unique, Keys(std::vector<int64_t>{4, 7}));
    EXPECT_EQ(lookups.tables[1].unique,
              Keys(weighed ? std::vector<int64_t>{7, 4} : std::vector<int64_t>{4, 7}));
    EXPECT_EQ(lookups.inverses[1].position,
              weighed ? (std::vector<int32_t>{kMasked, 0, 1}) : (std::vector<int32_t>{0, 1, 0}));
  }
}

TEST(Dedupe, PrunesInvalidIdsWhereAsked) {
  IdRules rules;
  rules.prune_ids = true;
  const LookupPlan plan{{KeyKind::kInt64, KeyKind::kBytes},
                        {{0, 0, 0, rules}, {0, 1, 0, {}}, {1, 2, 1, rules}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(std::vector<int64_t>{-1, 5, 0, -7})),
                   ids_of(Keys(std::vector<std::string>{"", "a"}))};
  const Lookups lookups = dedupe(plan, minibatch);
  EXPECT_EQ(lookups.inverses[0].position, (std::vector<int32_t>{kMasked, 0, 1, kMasked}));
  EXPECT_EQ(lookups.inverses[1].position, (std::vector<int32_t>{2, 0, 1, 3}));
  EXPECT_EQ(lookups.inverses[2].position, (std::vector<int32_t>{kMasked, 0}));
  EXPECT_EQ(lookups.tables[1].unique, Keys(std::vector<std::string>{"a"}));
}

TEST(Dedupe, HasTheDefaultIdWhereAnExampleNeedsIt) {
  IdRules rules{true, true, true, {}};
  IdRules with_default = rules;
  with_default.default_id = 9;
  const LookupPlan plan{
      {KeyKind::kInt64, KeyKind::kInt64, KeyKind::kInt64, KeyKind::kInt64},
      {{0, 0, 0, rules}, {1, 1, 0, with_default}, {2, 2, 1, with_default}, {3, 3, 0, with_default}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(std::vector<int64_t>{4, 0, -1, 4, 9})),
                   ids_of(Keys(std::vector<int64_t>{0, 4}))};
  Ids& ids = minibatch.ids[0];
  ids.weights = {1, 1, 1, 0, 1};
  for (const std::vector<int64_t>& offsets : std::vector<std::vector<int64_t>>{
           {0, 0, 5}, {0, 1, 2, 5}, {0, 1, 3, 5}, {0, 3, 4, 5}}) {  // no id; padding; pruned; no weight
    ids.offsets = offsets;
    const Lookups lookups = dedupe(plan, minibatch);
    EXPECT_EQ(lookups.inverses[0].default_place, kMasked);
    EXPECT_EQ(lookups.inverses[1].default_place, 1);
    EXPECT_EQ(lookups.inverses[1].position, (std::vector<int32_t>{0, kMasked, kMasked, kMasked, 1}));
    EXPECT_EQ(lookups.inverses[2].default_place, kMasked) << "nobody needs it";
    EXPECT_EQ(lookups.tables[2].unique, Keys(std::vector<int64_t>{4}));
    EXPECT_EQ(lookups.inverses[3].default_place, 1) << "as of the table that is looked up alike";
  }
}

TEST(Dedupe, LeavesOutTablesWithoutKeys) {
  const LookupPlan plan{{KeyKind::kInt64, KeyKind::kInt64}, {{0, 0, 0, false}, {1, 1, 1, false}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(KeyKind::kInt64)), ids_of(Keys(std::vector<int64_t>{1}))};
  const Lookups lookups = dedupe(plan, minibatch);
  ASSERT_EQ(lookups.tables.size(), 1u);
  EXPECT_EQ(lookups.tables[0].table, 1u);
  EXPECT_EQ(lookups.inverses.size(), 2u);
}

TEST(Dedupe, RefusesIdsOfTheOtherKind) {
  const LookupPlan plan{{KeyKind::kInt64}, {{0, 0, 0, false}}};
  data::Minibatch minibatch;
  minibatch.ids = {ids_of(Keys(std::vector<std::string>{"a"}))};
  EXPECT_THROW(dedupe(plan, minibatch), Error);
}

}  // namespace
}  // namespace embers
