#include <gtest/gtest.h>

#include "tests/data/testutil.h"

namespace embers::data {
namespace {

const std::string kJob = job_text("columns = [{ name = \"age\", type = \"int\" }, { name = \"town\" }]", R"(
[features]
town = { missing = "?" }
age = {}
[training]
epochs = 5
)");

Job with(std::vector<std::string> overrides) { return parse(kJob, std::move(overrides)); }

TEST(Overrides, ReplaceValuesOfAnyType) {
  const Job job =
      with({"training.epochs=7", "data.dir=../some/where", "data.header=true", "training.mode=sync",
            "optimizer.learning_rate=1e-2", "job.name=\"in quotes\"", "model.hidden=[1, 2]"});
  EXPECT_EQ(job.training.epochs, 7u);
  EXPECT_EQ(job.data.dir, "../some/where");
  EXPECT_TRUE(job.data.header);
  EXPECT_EQ(job.training.mode, Mode::kSync);
  EXPECT_EQ(job.optimizer.params.at("learning_rate"), 0.01);
  EXPECT_EQ(job.job.name, "in quotes");
  EXPECT_EQ(job.model.params.dump(), R"({"hidden":[1,2]})");
}

TEST(Overrides, ALaterOneWins) {
  EXPECT_EQ(with({"training.epochs=7", "training.epochs=8"}).training.epochs, 8u);
}

TEST(Overrides, TakeBareTextsThatAreNoToml) {
  EXPECT_EQ(with({"data.separator=;"}).data.separator, ';');
  EXPECT_EQ(with({"data.comment="}).data.comment, "");
  EXPECT_EQ(with({"data.dir=C:\\a \"b\"\tc=d"}).data.dir, "C:\\a \"b\"\tc=d");
  EXPECT_EQ(with({"data.dir=1\n[training]\nepochs=9"}).data.dir, "1\n[training]\nepochs=9");
}

TEST(Overrides, ReplaceLists) {
  EXPECT_TRUE(with({"data.test=x", "data.test=[]"}).data.test.empty());
  EXPECT_EQ(with({"data.train=[\"a\", \"b\"]"}).data.train, (std::vector<std::string>{"a", "b"}));
}

TEST(Overrides, ReachIntoSectionsThatTheFileLacks) {
  const Job job = with({"storage.tables.\"deep*\".dim=8", "storage.tables.'deep*'.learning_rate=0.5"});
  ASSERT_EQ(job.storage.tables.size(), 1u);
  EXPECT_EQ(job.storage.tables[0].match, "deep*");
  EXPECT_EQ(job.storage.tables[0].dim, 8u);
  EXPECT_EQ(job.storage.tables[0].learning_rate, 0.5);
  EXPECT_EQ(job.place({"storage", "tables", "deep*", "dim"}), "--set storage.tables.\"deep*\".dim=8");
}

TEST(Overrides, AnInlineTableReplacesTheWholeTable) {
  const Job job = with({"features.town={ column = \"age\" }"});
  EXPECT_EQ(job.features[0].column, "age");
  EXPECT_FALSE(job.features[0].has_missing_key);
}

TEST(Overrides, KeepThePlaceOfWhatTheyReplaceAndAppendTheRestInOrder) {
  const Job job = with({"features.zz.column=town", "features.aa.column=age", "features.town.missing=none"});
  ASSERT_EQ(job.features.size(), 4u);
  EXPECT_EQ(job.features[0].name, "town");
  EXPECT_EQ(job.features[0].missing_key, "none");
  EXPECT_EQ(job.features[1].name, "age");
  EXPECT_EQ(job.features[2].name, "zz");
  EXPECT_EQ(job.features[3].name, "aa");
}

TEST(Overrides, ErrorsNameTheOverride) {
  const std::pair<const char*, const char*> cases[] = {
      {"training.epocs=7",
       "--set training.epocs=7: unknown key 'epocs' in [training]; did you mean 'epochs'?"},
      {"trainin.epochs=7", "--set trainin.epochs=7: unknown section 'trainin'; did you mean 'training'?"},
      {"training.epochs=0", "--set training.epochs=0: [training] 'epochs' is 0"},
      {"training.epochs=many", "--set training.epochs=many: [training] 'epochs' must be a whole number"},
      {"training.epochs", "--set training.epochs: expected section.key=value"},
      {"training=3", "--set training=3: 'training' must be a section"},
      {"training.epochs.x=3", "--set training.epochs.x=3: 'epochs' is not a section"},
      {"storage.tables.deep*.dim=8", "--set storage.tables.deep*.dim=8: "},
      {"=8", "--set =8: "},
      {"storage.tables.x.dim=0", "--set storage.tables.x.dim=0: [storage.tables.\"x\"] 'dim' is 0"},
      {"features.new.as=numeric", "--set features.new.as=numeric: [features] 'new' there is no column 'new'"},
  };
  for (const auto& [text, part] : cases) {
    const std::string message = parse_error(kJob, {text});
    EXPECT_EQ(message.rfind(part, 0), 0u) << message;
  }
}

}  // namespace
}  // namespace embers::data
