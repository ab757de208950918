#include <gtest/gtest.h>

#include "tests/model/toy.h"

namespace embers {
namespace {

ModelConfig config(nlohmann::json params) {
  return ModelConfig(toy::job_of({toy::numeric("x")}, "mine", std::move(params)));
}

TEST(ModelConfig, ReadsValuesOfEachType) {
  const ModelConfig c =
      config({{"i", 3}, {"d", 0.5}, {"b", true}, {"s", "text"}, {"is", {1, 2}}, {"ss", {"a", "b"}}});
  EXPECT_EQ(c.get_int("i", 0), 3);
  EXPECT_EQ(c.get_double("d", 0), 0.5);
  EXPECT_EQ(c.get_double("i", 0), 3.0);
  EXPECT_TRUE(c.get_bool("b", false));
  EXPECT_EQ(c.get_string("s", ""), "text");
  EXPECT_EQ(c.get_ints("is", {}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(c.get_strings("ss", {}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.name(), "mine");
  EXPECT_EQ(c.seed(), 11u);
}

TEST(ModelConfig, GivesTheOtherwiseValueForAbsentKeys) {
  const ModelConfig c = config(nullptr);
  EXPECT_EQ(c.get_int("i", 7), 7);
  EXPECT_EQ(c.get_ints("is", {4}), std::vector<int64_t>{4});
  EXPECT_EQ(c.get_string("s", "none"), "none");
  EXPECT_NO_THROW(c.check_all_read());
}

TEST(ModelConfig, RefusesValuesOfAnotherType) {
  const ModelConfig c = config({{"i", 1.5}, {"is", {1, "a"}}, {"b", 1}, {"s", 2}, {"d", "x"}});
  toy::expect_invalid({"toy.toml:1", "i = 1.5", "whole number"}, [&] { c.get_int("i", 0); });
  toy::expect_invalid({"is = [1,\"a\"]"}, [&] { c.get_ints("is", {}); });
  toy::expect_invalid({"b = 1", "true or false"}, [&] { c.get_bool("b", false); });
  toy::expect_invalid({"s = 2", "string"}, [&] { c.get_string("s", ""); });
  toy::expect_invalid({"d = \"x\"", "number"}, [&] { c.get_double("d", 0); });
  toy::expect_invalid({"is = "}, [&] { c.get_strings("is", {}); });
}

TEST(ModelConfig, NamesAKeyThatNobodyAskedFor) {
  const ModelConfig c = config({{"hiden", {1}}, {"dim", 4}});
  c.get_int("dim", 8);
  c.get_ints("hidden", {});
  toy::expect_invalid({"toy.toml:1", "'mine'", "'hiden'", "did you mean 'hidden'"},
                      [&] { c.check_all_read(); });
}

TEST(ModelConfig, DimsComeFromTheStorageSectionFirst) {
  job::Job job = toy::job_of({toy::numeric("x")});
  job::TableOverride entry;
  entry.match = "t";
  entry.dim = 16;
  job.storage.tables.push_back(entry);
  EXPECT_EQ(ModelConfig(job).dim("t", 4), 16);
  EXPECT_EQ(ModelConfig(job).dim("u", 4), 4);
  toy::expect_invalid({"'u'", "dim -4"}, [&] { ModelConfig(job).dim("u", -4); });
  toy::expect_invalid({"'u'"}, [&] { ModelConfig(job).dim("u", int64_t{1} << 40); });
}

}  // namespace
}  // namespace embers
