#include "bench/harness/targets.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

using Json = nlohmann::json;

TEST(Target, HoldsOrDoesNot) {
  EXPECT_EQ(target("x", 2, 2)["holds"], true);
  EXPECT_EQ(target("x", 1.99, 2)["holds"], false);
  EXPECT_EQ(target_at_most("x", 2, 2)["holds"], true);
  EXPECT_EQ(target_at_most("x", 2.01, 2)["holds"], false);
}

TEST(Target, ALimitStandsBesideItAndHelpsNobody) {
  const Json t = target("x", 0.5, 0.9, 0.52);
  EXPECT_EQ(t["holds"], false);
  EXPECT_EQ(t["limit"], 0.52);
  EXPECT_NEAR(t["of_limit"].get<double>(), 0.96, 0.01);
  EXPECT_FALSE(t.contains("met"));
}

TEST(Target, TellsItsInterval) {
  EXPECT_EQ(target("x", {2, 1, 3}, 2)["interval"], (Json{1.0, 3.0}));
  EXPECT_FALSE(target("x", 2, 2).contains("interval"));
}

TEST(BeatenLimits, AreThoseThatAreBeatenByMoreThanThreePercent) {
  const Json report{{"limits", {limit("kept", {1.03, 1.02, 1.04}), limit("beaten", {1.04, 1.01, 1.06})}}};
  EXPECT_EQ(beaten_limits(report), (std::vector<std::string>{"beaten (1.04 of its limit)"}));
}

TEST(BeatenLimits, AreNotBeatenByNoise) {
  EXPECT_TRUE(beaten_limits({{"limits", {limit("noisy", {1.2, 0.9, 1.5})}}}).empty());
}

TEST(NameSizes, TellsWhatWasMeasuredApart) {
  Json report{{"targets", {target("a.b", 1, 1)}}, {"limits", {limit("c", 1)}}};
  name_sizes(report, "quick");
  EXPECT_EQ(report["targets"][0]["name"], "a.b[quick]");
  EXPECT_EQ(report["limits"][0]["name"], "c[quick]");
}

TEST(TableOfTargets, SaysWhatWasWantedAndWhetherItHolds) {
  const Json report{
      {"targets", {target("a.speed", {0.5, 0.4, 0.6}, 0.9, 0.8), target_at_most("a.size", 3, 4)}}};
  EXPECT_EQ(
      table_of_targets(report),
      "a.speed                                         0.500 (0.400 to 0.600)  at least 0.9: MISSED; limit "
      "0.800, 0.62 of it\n"
      "a.size                                          3.000  at most 4: holds\n");
}

}  // namespace
}  // namespace embers
