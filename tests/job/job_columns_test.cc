#include <gtest/gtest.h>

#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kFeatures =
    R"(columns = [{ name = "age", type = "int" }, { name = "town" }, { name = "h", type = "float" }]
[features]
age = { as = "identity", num_buckets = 100 }
town = { as = "hash_bucket", hash_bucket_size = 10 }
home = { column = "town" }
file = { column = "town", as = "vocabulary", vocabulary_file = "v.txt" }
h = {}
)";

Job parsed(const std::string& columns) { return parse(job_text(kFeatures, "[columns]\n" + columns)); }

TEST(InputColumns, AreReadInOrderOfTheFile) {
  const Job job = parsed(R"(
town = { as = "embedding", dimension = 4, combiner = "sqrtn", max_norm = 2, do_fusion = true, initializer = "zeros" }
age_hot = { feature = "age", as = "indicator" }
h = { as = "numeric" }
both = { as = "shared_embedding", features = ["town", "age"], dimension = 3, shared_embedding_collection_name = "t" })");
  ASSERT_EQ(job.columns.size(), 4u);
  const InputColumn& town = job.columns[0];
  EXPECT_EQ(town.kind, InputColumn::Kind::kEmbedding);
  EXPECT_EQ(town.features, std::vector<std::string>{"town"});
  EXPECT_EQ(town.dimension, 4);
  EXPECT_EQ(town.combiner, "sqrtn");
  EXPECT_EQ(town.max_norm, 2);
  EXPECT_TRUE(town.do_fusion);
  EXPECT_EQ(town.initializer->name, "zeros");
  EXPECT_EQ(job.columns[1].features, std::vector<std::string>{"age"});
  EXPECT_EQ(job.columns[1].kind, InputColumn::Kind::kIndicator);
  EXPECT_EQ(job.columns[2].kind, InputColumn::Kind::kNumeric);
  EXPECT_EQ(job.columns[3].features, (std::vector<std::string>{"town", "age"}));
  EXPECT_EQ(job.columns[3].table, "t");
  EXPECT_EQ(job.columns[3].combiner, "mean");
}

TEST(InputColumns, WrongParametersNameTheLineAndWhatToDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"town = {}", "job.toml:14: [columns] 'town' needs 'as'"},
      {"town = \"embedding\"", "job.toml:14: [columns] 'town' must be a section"},
      {"town = { as = \"embeding\", dimension = 3 }", "did you mean 'embedding'?"},
      {"town = { as = \"embedding\" }", "an embedding needs a 'dimension'"},
      {"town = { as = \"embedding\", dimension = 0 }", "'dimension' is 0"},
      {"town = { as = \"embedding\", dimension = 3, combiner = \"max\" }", "'combiner' cannot be 'max'"},
      {"town = { as = \"embedding\", dimension = 3, max_norm = 0 }", "'max_norm' must be greater than 0"},
      {"town = { as = \"embedding\", dimension = 3, dofusion = true }", "did you mean 'do_fusion'?"},
      {"town = { as = \"indicator\", dimension = 3 }", "unknown key 'dimension'"},
      {"twon = { as = \"indicator\" }", "there is no feature 'twon'; did you mean 'town'?"},
      {"x = { as = \"indicator\", feature = \"twon\" }", "there is no feature 'twon'; did you mean 'town'?"},
      {"h = { as = \"indicator\" }", "'h' is a numeric feature"},
      {"town = { as = \"numeric\" }", "'town' is a categorical feature"},
      {"home = { as = \"indicator\" }", "an indicator needs a known number of ids"},
      {"file = { as = \"indicator\" }", "give vocabulary_size"},
      {"x = { as = \"shared_embedding\", features = [\"town\"], dimension = 3 }", "two or more features"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_MENTIONS(message_of([&] { parsed(text); }), part);
  }
}

}  // namespace
}  // namespace embers::data
