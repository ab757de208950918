// What the program says about its own keys.
#include <gtest/gtest.h>

#include "job/job.h"
#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kAnyJob = job_text(R"(columns = [{ name = "age", type = "int" }]
[features]
age = { column = "age" }
[columns]
any = { as = "embedding", feature = "age", dimension = 1 }
[storage.tables]
any = {}
)");

// Where a section's key is set from the command line.
std::string path_of(const std::string& section, const std::string& key) {
  const bool entries = section == "features" || section == "columns" || section == "storage.tables";
  return section + (entries ? ".any." : ".") + key;
}

std::string said_of(const std::string& section, const std::string& key) {
  try {
    parse(kAnyJob, {path_of(section, key) + "=[[1]]"});
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(KnownKeys, AreThoseThatOverridesMayName) {
  for (const char* const section : {"job", "data", "training", "storage", "storage.tables"}) {
    const KnownKeys all = known_keys();
    ASSERT_TRUE(all.contains(section));
    for (const std::string& key : all.at(section))
      EXPECT_EQ(said_of(section, key).find("unknown key"), std::string::npos) << section << " " << key;
    EXPECT_NE(said_of(section, "none").find("unknown key"), std::string::npos) << section;
  }
}

TEST(KnownKeys, ComeFromAllKindsOfEntries) {
  const KnownKeys keys = known_keys();
  const auto has = [&](const char* section, const char* key) {
    const auto& known = keys.at(section);
    return std::find(known.begin(), known.end(), key) != known.end();
  };
  for (const char* const key : {"column", "as", "transform", "mean", "max", "missing", "keys", "num_buckets",
                                "hash_bucket_size", "vocabulary_list", "vocabulary_size", "num_oov_buckets",
                                "default_value", "boundaries", "hash_key", "weights"})
    EXPECT_TRUE(has("features", key)) << key;
  for (const char* const key : {"as", "feature", "features", "dimension", "combiner", "max_norm",
                                "initializer", "shared_embedding_collection_name", "do_fusion"})
    EXPECT_TRUE(has("columns", key)) << key;
  EXPECT_TRUE(has("data.columns", "positive"));
  EXPECT_TRUE(has("optimizer.schedule", "boundaries"));
  EXPECT_TRUE(has("storage.tables", "constraint"));
  EXPECT_TRUE(has("storage.tables.optimizer", "schedule"));
  EXPECT_TRUE(has("model", "library"));
  EXPECT_FALSE(has("training", "any"));
}

}  // namespace
}  // namespace embers::data
