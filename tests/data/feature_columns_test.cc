// Features that the job file declares as tf.feature_column's categorical columns, from file to minibatch.
#include <gtest/gtest.h>

#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kColumns = R"(columns = [
  { name = "age", type = "int" }, { name = "town" }, { name = "tags", separator = "|" },
  { name = "w", type = "float", separator = "|" }, { name = "h", type = "float" }, { name = "many", type = "int", separator = "|" },
  { name = "y", type = "label" }])";

Job features(const TempDir& dir, const std::string& csv, const std::string& text,
             const std::string& data = "") {
  return job_over(dir, csv, kColumns + "\n" + data, "[features]\n" + text);
}

const Ids& ids_of(const Minibatch& minibatch, const Job& job, const std::string& feature) {
  return minibatch.ids.at(static_cast<size_t>(job.feature_schema().categorical_index(feature)));
}

std::string read_keys(const std::string& csv, const std::string& feature) {
  const TempDir dir;
  const Job job = features(dir, csv, "f = " + feature);
  return keys_of(ids_of(read_all(job), job, "f"));
}

TEST(FeatureColumns, EveryKindGivesInt64Ids) {
  EXPECT_EQ(read_keys("3,x,,,,,1\n1,x,,,,,0\n,x,,,,,0\n",
                      R"({ column = "age", as = "identity", num_buckets = 4 })"),
            "3|1|");
  EXPECT_EQ(read_keys(",Hello,,,,,1\n,TensorFlow,,,,,0\n",
                      R"({ column = "town", as = "hash_bucket", hash_bucket_size = 3 })"),
            "0|2");
  EXPECT_EQ(read_keys(",b,,,,,1\n,?,,,,,0\n",
                      R"({ column = "town", as = "vocabulary", vocabulary_list = ["a", "b"] })"),
            "1|");
  EXPECT_EQ(
      read_keys(
          ",,b|?|a,,,,1\n",
          R"({ column = "tags", as = "vocabulary", vocabulary_list = ["a", "b"], num_oov_buckets = 1 })"),
      "1,2,0");
  EXPECT_EQ(
      read_keys("7,,,,,,1\n8,,,,,,1\n",
                R"({ column = "age", as = "vocabulary", vocabulary_list = [7, 9], default_value = 5 })"),
      "0|5");
  EXPECT_EQ(read_keys(",,,,1.5,,1\n,,,,1,,1\n,,,,,,1\n",
                      R"({ column = "h", as = "bucketized", boundaries = [1, 1.5] })"),
            "2|1|");
}

TEST(FeatureColumns, MissingStandsForAValueBeforeTheTransform) {
  EXPECT_EQ(read_keys(",x,,,,,1\n", R"({ column = "age", as = "identity", num_buckets = 4, missing = 2 })"),
            "2");
  EXPECT_EQ(
      read_keys(",,,,,,1\n", R"({ column = "h", as = "bucketized", boundaries = [1, 2], missing = 1 })"),
      "1");
  EXPECT_EQ(
      read_keys(",,,,,,1\n",
                R"({ column = "town", as = "vocabulary", vocabulary_list = ["a", "b"], missing = "b" })"),
      "1");
}

TEST(FeatureColumns, ABadValueIsABadRow) {
  const TempDir dir;
  const std::string identity = R"(age = { as = "identity", num_buckets = 4 })";
  Job job = features(dir, "1,x,,,,,1\n4,x,,,,,1\n2,x,,,,,0\n", identity);
  EXPECT_MENTIONS(read_error(job), "t.csv:2: feature 'age': 4 is outside [0, 4)");
  job = features(dir, "1,x,,,,,1\n4,x,,,,,1\n2,x,,,,,0\n", identity, "on_bad_row = \"skip\"");
  const Minibatch minibatch = read_all(job);
  EXPECT_EQ(minibatch.skipped, 1);
  EXPECT_EQ(keys_of(minibatch.ids[0]), "1|2");
}

// TensorFlow's test_get_sparse_tensors_simple for one dimension: bucket 0 x cA, bucket 1 x (cB, cC).
TEST(FeatureColumns, ACrossTakesFeaturesAndColumns) {
  const TempDir dir;
  const Job job = features(dir, ",,cA,,-1,,1\n,,cB|cC,,0.5,,1\n,,,,0.5,,1\n,,cA,,,,1\n", R"(
x = { as = "crossed", keys = ["b", "tags"], hash_bucket_size = 5, hash_key = 5 }
b = { column = "h", as = "bucketized", boundaries = [0, 1] })");
  const Minibatch minibatch = read_all(job);
  EXPECT_EQ(keys_of(ids_of(minibatch, job, "x")), "1|1,3||");
  EXPECT_EQ(job.feature_schema().categorical[0].buckets, 5);
}

TEST(FeatureColumns, ACrossOfACrossCrossesItsInputs) {
  const TempDir dir;
  const Job job = features(dir, "5,t,a|b,,,,1\n", R"(
ab = { as = "crossed", keys = ["age", "town"], hash_bucket_size = 10 }
abc = { as = "crossed", keys = ["ab", "tags"], hash_bucket_size = 1000 }
flat = { as = "crossed", keys = ["age", "town", "tags"], hash_bucket_size = 1000 })");
  const Minibatch minibatch = read_all(job);
  EXPECT_EQ(ids_of(minibatch, job, "abc").keys, ids_of(minibatch, job, "flat").keys);
  EXPECT_EQ(ids_of(minibatch, job, "abc").keys.size(), 2u);
}

TEST(FeatureColumns, AnUnknownValueTakesPartInACross) {
  const TempDir dir;
  const Job job = features(dir, "5,t,,,,,1\n", R"(
v = { column = "town", as = "vocabulary", vocabulary_list = ["a"] }
x = { as = "crossed", keys = ["age", "v"], hash_bucket_size = 10 })");
  const Minibatch minibatch = read_all(job);
  EXPECT_EQ(ids_of(minibatch, job, "v").keys.size(), 0u);
  EXPECT_EQ(ids_of(minibatch, job, "x").keys.size(), 1u);
}

TEST(FeatureColumns, WeightsStandBesideTheirIds) {
  const TempDir dir;
  const Job job = features(dir, ",,a|?|b,0.5|2|3,,,1\n,,,,,,1\n,,,7,,,1\n,,b||a,1||2,,,1\n,,?,4,,,1\n", R"(
v = { column = "tags", as = "vocabulary", vocabulary_list = ["a", "b"], weights = "w" }
raw = { column = "tags", weights = "w" }
plain = { column = "tags" })");
  const Minibatch minibatch = read_all(job);
  const Ids& v = ids_of(minibatch, job, "v");
  EXPECT_EQ(keys_of(v), "0,1|||1,0|");
  EXPECT_EQ(v.weights, (std::vector<float>{0.5, 3, 1, 2}));
  const Ids& raw = ids_of(minibatch, job, "raw");
  EXPECT_EQ(keys_of(raw), "a,?,b|||b,a|?");
  EXPECT_EQ(raw.weights, (std::vector<float>{0.5, 2, 3, 1, 2, 4}));
  EXPECT_TRUE(ids_of(minibatch, job, "plain").weights.empty());
  EXPECT_TRUE(job.feature_schema().categorical[0].weighted);
  EXPECT_FALSE(job.feature_schema().categorical[2].weighted);
}

TEST(FeatureColumns, WeightsThatDoNotFitAreABadRow) {
  const TempDir dir;
  const std::string weighted = R"(tags = { weights = "w" })";
  EXPECT_MENTIONS(read_error(features(dir, ",,a,1,,,1\n,,a|b,1,,,1\n", weighted)),
                  "t.csv:2: column 'w': 1 weights for 2 values of feature 'tags'");
  EXPECT_MENTIONS(read_error(features(dir, ",,a|b,1|,,,1\n", weighted)),
                  "the weight of value 2 of feature 'tags' is missing");
  EXPECT_MENTIONS(read_error(features(dir, ",,a,x,,,1\n", weighted)), "'x' is not a finite number");
}

TEST(FeatureColumns, AWeightedReplacementOfAMissingValueWeighsOne) {
  const TempDir dir;
  const Job job = features(dir, ",,,,,,1\n,,a,3,,,1\n", R"(tags = { weights = "w", missing = "none" })");
  const Minibatch minibatch = read_all(job);
  EXPECT_EQ(keys_of(minibatch.ids[0]), "none|a");
  EXPECT_EQ(minibatch.ids[0].weights, (std::vector<float>{1, 3}));
}

TEST(FeatureColumns, ACrossCanBeWeighted) {
  const TempDir dir;
  const std::string cross =
      R"(x = { as = "crossed", keys = ["town", "tags"], hash_bucket_size = 10, weights = "w" })";
  const Minibatch minibatch = read_all(features(dir, ",t,a|b,2|3,,,1\n,t,,,,,1\n", cross));
  EXPECT_EQ(minibatch.ids[0].weights, (std::vector<float>{2, 3}));
  EXPECT_MENTIONS(read_error(features(dir, ",t,a|b,2,,,1\n", cross)),
                  "1 weights for 2 values of feature 'x'");
}

TEST(FeatureColumns, AFloatColumnOfSeveralValuesFeedsNoFeatureByItself) {
  const TempDir dir;
  const Job job = job_over(dir, "", kColumns);
  EXPECT_EQ(job.feature_schema().numeric, std::vector<std::string>{"h"});
  EXPECT_EQ(job.feature_schema().categorical_index("w"), -1);
}

TEST(FeatureColumns, AVocabularyFileIsReadFromTheDataFolder) {
  const TempDir dir;
  write_file(dir, "towns.txt", "a\nb\nc\n");
  const std::string rows = ",b,,,,,1\n,c,,,,,1\n";
  Job job = features(dir, rows, R"(town = { as = "vocabulary", vocabulary_file = "towns.txt" })");
  EXPECT_EQ(keys_of(read_all(job).ids[0]), "1|2");
  job = features(dir, rows,
                 R"(town = { as = "vocabulary", vocabulary_file = "towns.txt", vocabulary_size = 2 })");
  EXPECT_EQ(keys_of(read_all(job).ids[0]), "1|");
  EXPECT_EQ(job.feature_schema().categorical[0].buckets, 2);
  job = features(dir, rows, R"(x = { as = "crossed", keys = ["v", "town"], hash_bucket_size = 9 }
v = { column = "town", as = "vocabulary", vocabulary_file = "none.txt" })");
  const std::string message = read_error(job);
  EXPECT_MENTIONS(message, "job.toml:12: [features] 'v': cannot read vocabulary file");
}

TEST(FeatureColumns, WrongParametersNameTheLineAndWhatToDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"age = { as = \"identity\" }",
       "job.toml:10: [features] 'age' this kind of feature needs 'num_buckets'"},
      {"age = { as = \"identity\", num_buckets = 0 }", "'num_buckets' is 0"},
      {"age = { as = \"identity\", num_buckets = 3, default_value = 3 }",
       "'default_value' is 3 but must be from 0 to 2"},
      {"town = { as = \"identity\", num_buckets = 3 }", "identity needs an int column"},
      {"town = { as = \"hash_bucket\" }", "needs 'hash_bucket_size'"},
      {"town = { as = \"hash_bucket\", hash_buckets = 3 }", "needs 'hash_bucket_size'"},
      {"town = { as = \"hash_bukcet\" }", "did you mean 'hash_bucket'?"},
      {"h = { as = \"hash_bucket\", hash_bucket_size = 3 }", "needs an int or string column; 'h' is not one"},
      {"town = { as = \"vocabulary\" }", "needs either 'vocabulary_list' or 'vocabulary_file'"},
      {"town = { as = \"vocabulary\", vocabulary_list = [\"a\"], vocabulary_file = \"f\" }", "needs either"},
      {"town = { as = \"vocabulary\", vocabulary_list = [] }", "a list of at least one value"},
      {"town = { as = \"vocabulary\", vocabulary_list = [\"a\", \"a\"] }", "'a' twice"},
      {"age = { as = \"vocabulary\", vocabulary_list = [\"a\"] }",
       "'vocabulary_list' is 'a', which is not an int64"},
      {"town = { as = \"vocabulary\", vocabulary_list = [\"a\"], vocabulary_size = 1 }",
       "unknown key 'vocabulary_size'"},
      {"town = { as = \"vocabulary\", vocabulary_list = [\"a\"], num_oov_buckets = -1 }",
       "'num_oov_buckets' is -1"},
      {"town = { as = \"vocabulary\", vocabulary_list = [\"a\"], num_oov_buckets = 1, default_value = 0 }",
       "cannot be combined"},
      {"h = { as = \"bucketized\" }", "needs 'boundaries'"},
      {"h = { as = \"bucketized\", boundaries = [] }", "at least one finite number"},
      {"h = { as = \"bucketized\", boundaries = [1, 1] }", "each larger than the one before"},
      {"h = { as = \"bucketized\", boundaries = [1, \"2\"] }", "at least one finite number"},
      {"h = { as = \"bucketized\", boundaries = [nan] }", "at least one finite number"},
      {"many = { as = \"bucketized\", boundaries = [1] }", "with one value"},
      {"x = { as = \"crossed\", keys = [\"age\", \"town\"] }", "needs 'hash_bucket_size'"},
      {"x = { as = \"crossed\", keys = [\"age\"], hash_bucket_size = 3 }", "two or more"},
      {"x = { as = \"crossed\", hash_bucket_size = 3 }", "two or more"},
      {"x = { as = \"crossed\", keys = [\"age\", \"twon\"], hash_bucket_size = 3 }",
       "there is no feature or column 'twon' to cross; did you mean 'town'?"},
      {"x = { as = \"crossed\", keys = [\"age\", \"y\"], hash_bucket_size = 3 }",
       "there is no feature or column 'y'"},
      {"x = { as = \"crossed\", keys = [\"age\", \"h\"], hash_bucket_size = 3 }",
       "'h' is a number: cross a bucketized"},
      {"x = { as = \"crossed\", keys = [\"age\", \"town\"], hash_bucket_size = 3, column = \"age\" }",
       "unknown key 'column'"},
      {"x = { as = \"crossed\", keys = [\"age\", \"town\"], hash_bucket_size = 3 }\n"
       "town = { as = \"hash_bucket\", hash_bucket_size = 3 }",
       "'town' is hashed already"},
      {"x = { as = \"crossed\", keys = [\"age\", \"tags\"], hash_bucket_size = 3 }\ntags = { weights = \"w\" "
       "}",
       "'tags' has weights"},
      {"x = { as = \"crossed\", keys = [\"age\", \"z\"], hash_bucket_size = 3 }\n"
       "z = { as = \"crossed\", keys = [\"age\", \"town\"], hash_bucket_size = 3 }",
       "crossed feature 'z' must come before"},
      {"tags = { weights = \"many\" }", "weights need a float column; 'many' is not one"},
      {"tags = { weights = \"ww\" }", "there is no column 'ww'; did you mean 'w'?"},
      {"h = { weights = \"w\" }", "unknown key 'weights'"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_MENTIONS(parse_error(job_text(kColumns, std::string("[features]\n") + text)), part);
  }
}

}  // namespace
}  // namespace embers::data
