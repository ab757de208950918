#include "data/derive.h"

#include <gtest/gtest.h>

#include "data/categorical.h"
#include "tests/data/testutil.h"

namespace embers::data {
namespace {

// Features town (strings), tag (weighted strings), n (int64), x and y (numbers).
const FeatureSchema kSchema{{"x", "y"},
                            {{"town", KeyKind::kBytes, 0, false},
                             {"tag", KeyKind::kBytes, 0, true},
                             {"n", KeyKind::kInt64, 0, false}}};

Minibatch minibatch() {
  Minibatch m;
  m.examples = 3;
  m.records = {70, 71, 72};
  m.numeric = {-1, 2, 0.5, 3, 1, 4};
  m.ids.resize(3);
  m.ids[0] = {Keys(std::vector<std::string>{"a", "b", "c"}), {0, 1, 2, 3}, 1, {}};
  m.ids[1] = {Keys(std::vector<std::string>{"a", "z", "b"}), {0, 2, 2, 3}, 0, {0.5, 2, 3}};
  m.ids[2] = {Keys(std::vector<int64_t>{5, 7, 9}), {0, 0, 2, 3}, 0, {}};
  return m;
}

Feature feature(IdKind kind, const std::string& column) {
  Feature feature;
  feature.name = "it";
  feature.column = column;
  feature.ids.kind = kind;
  return feature;
}

Feature vocabulary(const std::string& column) {
  Feature made = feature(IdKind::kVocabulary, column);
  made.ids.vocabulary = std::make_shared<const Vocabulary>(std::vector<std::string>{"a", "b", "7"});
  return made;
}

Feature bucketized(const std::string& column) {
  Feature made = feature(IdKind::kBucketized, column);
  made.ids.boundaries = {0, 1};
  return made;
}

Ids derived(const Feature& feature) { return Derivation(feature, kSchema).derive(minibatch()); }

std::string error_of(const Feature& feature) {
  return message_of([&] { derived(feature); });
}

TEST(Derivation, MapsTextsNumbersAndNumerics) {
  const Ids town = derived(vocabulary("town"));
  EXPECT_EQ(keys_of(town), "0|1|");
  EXPECT_EQ(town.width, 0);
  EXPECT_EQ(keys_of(derived(vocabulary("n"))), "|2|");
  const Ids x = derived(bucketized("x"));
  EXPECT_EQ(keys_of(x), "0|1|2");
  EXPECT_EQ(x.width, 1);
  EXPECT_EQ(keys_of(derived(bucketized("y"))), "2|2|2");
  Feature hashed = feature(IdKind::kHashBucket, "town");
  hashed.ids.num_buckets = 10;
  EXPECT_EQ(keys_of(derived(hashed)),
            fmt::format("{}|{}|{}", hash_bucket("a", 10), hash_bucket("b", 10), hash_bucket("c", 10)));
}

TEST(Derivation, CrossesFeatures) {
  Feature cross = feature(IdKind::kCrossed, "");
  cross.ids.num_buckets = 5;
  cross.ids.hash_key = 5;
  cross.crossed = {bucketized("x"), feature(IdKind::kRaw, "n")};
  const Ids ids = derived(cross);
  EXPECT_EQ(ids.offsets, (std::vector<int64_t>{0, 0, 2, 3}));
  cross.crossed = {feature(IdKind::kRaw, "tag"), bucketized("x")};
  EXPECT_MENTIONS(error_of(cross), "column 'it' crosses a feature with weights");
}

TEST(Derivation, KeepsTheWeightsOfItsFeature) {
  const Ids tag = derived(vocabulary("tag"));
  EXPECT_EQ(keys_of(tag), "0||1");
  EXPECT_EQ(tag.weights, (std::vector<float>{0.5, 3}));
  EXPECT_TRUE(Derivation(vocabulary("tag"), kSchema).schema().weighted);
}

TEST(Derivation, TakesANumericFeatureForTheWeightOfOneId) {
  Feature weighted = vocabulary("town");
  weighted.weights = "y";
  const Ids ids = derived(weighted);
  EXPECT_EQ(keys_of(ids), "0|1|");
  EXPECT_EQ(ids.weights, (std::vector<float>{2, 3}));
  Feature raw = feature(IdKind::kRaw, "town");
  raw.weights = "x";
  EXPECT_EQ(keys_of(derived(raw)), "a|b|c");
  EXPECT_EQ(derived(raw).weights, (std::vector<float>{-1, 0.5, 1}));
  raw.column = "n";
  EXPECT_MENTIONS(error_of(raw), "record 71 of the data: column 'it': one weight, 'x', for 2 ids");
  raw.column = "tag";
  EXPECT_MENTIONS(error_of(raw), "feature 'tag' has weights already");
}

TEST(Derivation, NamesWhatDoesNotFit) {
  EXPECT_MENTIONS(
      error_of(vocabulary("twon")),
      "column 'it' reads categorical feature 'twon', which the data does not have; did you mean 'town'?");
  EXPECT_MENTIONS(error_of(bucketized("town")), "reads numeric feature 'town'");
  Feature identity = feature(IdKind::kIdentity, "town");
  identity.ids.num_buckets = 7;
  EXPECT_MENTIONS(error_of(identity), "needs int64 keys, but feature 'town' has strings");
  identity.column = "n";
  EXPECT_MENTIONS(error_of(identity), "record 71 of the data: column 'it': 7 is outside [0, 7)");
}

TEST(Derivation, IsDescribedByAllThatMakesItUp) {
  EXPECT_EQ(describe(bucketized("x")), "bucketized(x, [0, 1])");
  Feature weighted = feature(IdKind::kRaw, "town");
  weighted.weights = "y";
  EXPECT_EQ(describe(weighted), "keys(town) weighted by y");
  Feature cross = feature(IdKind::kCrossed, "");
  cross.ids.num_buckets = 9;
  cross.crossed = {bucketized("x"), feature(IdKind::kRaw, "n")};
  const std::string before = describe(cross);
  cross.ids.hash_key = 1;
  EXPECT_NE(describe(cross), before);
  Feature other = vocabulary("town");
  other.ids.default_value = -1;
  EXPECT_NE(describe(other), describe(vocabulary("town")));
}

}  // namespace
}  // namespace embers::data
