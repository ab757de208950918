#include "bench/harness/contest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/errors.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;

// Says in `order` that it ran, and takes as long as the next of these numbers says.
Contest::Try noting(std::vector<std::string>& order, const std::string& name, std::vector<double> seconds) {
  return [&order, name, seconds, at = size_t{0}]() mutable {
    order.push_back(name);
    const double s = seconds[at++ % seconds.size()];
    return Cost{s, 10 - s};
  };
}

TEST(OrderOfTurn, GoesThereAndBack) {
  EXPECT_EQ(order_of_turn(3, 0), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(order_of_turn(3, 1), (std::vector<size_t>{2, 1, 0}));
  EXPECT_EQ(order_of_turn(3, 2), order_of_turn(3, 0));
}

TEST(Contest, EveryConfigurationOfEverySideGetsAsManyTriesInTurns) {
  std::vector<std::string> order;
  Contest contest;
  contest.add("a", "1", noting(order, "a1", {1}));
  contest.add("a", "2", noting(order, "a2", {2}));
  contest.add("b", "", noting(order, "b", {3}));
  contest.measure(2);
  EXPECT_EQ(order, (std::vector<std::string>{"a1", "a2", "b", "b", "a2", "a1"}));
}

TEST(Contest, RoundsThatAreMeasuredOneByOneGoThereAndBackToo) {
  std::vector<std::string> order;
  Contest contest;
  contest.add("a", "", noting(order, "a", {1}));
  contest.add("b", "", noting(order, "b", {1}));
  contest.measure(1);
  contest.measure(1);
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "b", "a"}));
}

TEST(Contest, WarmingUpDoesNotCount) {
  std::vector<std::string> order;
  Contest contest;
  contest.add("a", "", noting(order, "a", {100, 1, 1, 1}));
  contest.warm_up();
  contest.measure(3);
  EXPECT_EQ(contest.seconds("a").value, 1);
  EXPECT_EQ(contest.json()["a"]["seconds"]["tries"], 3);
}

TEST(Contest, AfterChoosingOnlyTheFastestConfigurationsGoOn) {
  std::vector<std::string> order;
  Contest contest;
  contest.add("a", "slow", noting(order, "slow", {5}));
  contest.add("a", "fast", noting(order, "fast", {1, 9, 2, 7, 7}));  // median 2, then 7
  contest.add("b", "", noting(order, "b", {3}));
  contest.choose(3);
  order.clear();
  contest.measure(2);
  EXPECT_EQ(order, (std::vector<std::string>{"fast", "b", "b", "fast"}));
  EXPECT_EQ(contest.configuration("a"), "fast");
  EXPECT_EQ(contest.seconds("a").value, 7) << "what it was chosen by must not count";
  EXPECT_EQ(contest.json()["a"]["tried"], (nlohmann::json{{"slow", 5.0}, {"fast", 2.0}}));
}

TEST(Contest, OfManyConfigurationsTheBestThreeAreTriedAgain) {
  std::vector<std::string> order;
  Contest contest;
  contest.add("a", "lucky", noting(order, "lucky", {1, 9, 9}));  // once
  contest.add("a", "slow", noting(order, "slow", {8}));
  contest.add("a", "fast", noting(order, "fast", {2}));
  contest.add("a", "other", noting(order, "other", {3}));
  contest.add("b", "", noting(order, "b", {3}));
  contest.choose(1);
  EXPECT_EQ(std::count(order.begin(), order.end(), "slow"), 1);
  for (const char* const name : {"lucky", "fast", "other", "b"})
    EXPECT_EQ(std::count(order.begin(), order.end(), name), 3) << name;
  contest.measure(1);
  EXPECT_EQ(contest.configuration("a"), "fast");
  EXPECT_EQ(contest.json()["a"]["tried"],
            (nlohmann::json{{"lucky", 9.0}, {"slow", 8.0}, {"fast", 2.0}, {"other", 3.0}}));
}

TEST(Contest, TheThriftiestMayGoOnBesideTheFastest) {
  std::vector<std::string> order;
  Contest contest;
  for (const double seconds : {2, 3, 4, 5, 6})  // and 10 less so many CPU seconds
    contest.add("a", std::to_string(int(seconds)), noting(order, "", {seconds}));
  contest.add("b", "fast and thrifty", [] { return Cost{1, 1}; });
  contest.add("b", "other", [] { return Cost{2, 2}; });
  contest.choose(1, true);
  contest.measure(1);
  EXPECT_EQ(contest.seconds("a").value, 2);
  EXPECT_EQ(contest.cpu_seconds("a").value, 8);
  EXPECT_EQ(contest.thrift("a", "b").value, 0.25);
  order.clear();
  contest.measure(1);
  EXPECT_EQ(order.size(), 2) << "of a; b has one left";
}

TEST(Contest, ASideStandsForItsFastestConfiguration) {
  std::vector<std::string> order;
  Contest contest;
  contest.add("a", "1", noting(order, "", {4}));
  contest.add("a", "2", noting(order, "", {2}));
  contest.add("b", "", noting(order, "", {6}));
  contest.measure(3);
  EXPECT_EQ(contest.speed("a", "b").value, 3);
  EXPECT_EQ(contest.configuration("a"), "2");
  EXPECT_EQ(contest.fastest({"a", "b"}), "a");
}

TEST(Contest, ThriftGoesByTheConfigurationThatTakesLeastOfTheProcessor) {
  std::vector<std::string> order;
  Contest contest;
  contest.add("a", "fast", noting(order, "", {2}));     // 8 CPU seconds
  contest.add("a", "thrifty", noting(order, "", {6}));  // 4
  contest.add("b", "", noting(order, "", {8}));         // 2
  contest.measure(3);
  EXPECT_EQ(contest.thrift("a", "b").value, 0.5);
  EXPECT_EQ(contest.cpu_seconds("a").value, 8);
}

TEST(Contest, ASideThatDoesNotExistIsAnError) {
  const Contest contest;
  expect_error(ErrorCode::kInternal, {"'c'"}, [&] { contest.seconds("c"); });
}

}  // namespace
}  // namespace embers
