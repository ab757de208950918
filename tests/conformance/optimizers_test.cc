// Optimizers and schedules against torch.optim and published formulas (optimizers/*.json, which
// make_optimizer_cases.py writes), through the code that `embers op` runs.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "apps/op/op.h"
#include "storage/update_rules/schedule.h"
#include "storage/update_rules/update_rule.h"
#include "tests/support/paths.h"

namespace embers::op {
namespace {

Json read(const std::string& name) {
  std::ifstream in(testing_support::path_of(CASES) + "/optimizers/" + name);
  return Json::parse(in);
}

double norm(const Json& row) {
  double squares = 0;
  for (const Json& x : row) squares += x.get<double>() * x.get<double>();
  return std::sqrt(squares);
}

double distance(const Json& a, const Json& b) {
  Json difference = Json::array();
  for (size_t i = 0; i < a.size(); ++i) difference.push_back(a.at(i).get<double>() - b.at(i).get<double>());
  return norm(difference);
}

void expect_rows(const Json& got, const Json& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [key, row] : want.items())
    EXPECT_LE(distance(got.at(key), row), 1e-5 * norm(row))
        << key << ": " << got.at(key) << ", expected " << row;
}

TEST(OptimizerConformance, AHundredSparseStepsEndWhereTheSourceEnds) {
  const Json file = read("optimizers.json");
  std::set<std::string> seen;
  for (const Json& entry : file.at("cases")) {
    SCOPED_TRACE(entry.at("optimizer").get<std::string>() + " " + entry.at("params").dump() + " (" +
                 entry.at("source").get<std::string>() + ")");
    seen.insert(entry.at("optimizer").get<std::string>());
    const Answer answer = op::answer(Json{{"op", "optimizer"},
                                          {"name", entry.at("optimizer")},
                                          {"params", entry.at("params")},
                                          {"rows", file.at("rows")},
                                          {"steps", file.at("steps")}});
    ASSERT_FALSE(answer.failed) << answer.json;
    ASSERT_EQ(answer.json.at("trace").size(), file.at("steps").size());
    for (const Json& moment : entry.at("expect")) {
      SCOPED_TRACE("after step " + moment.at("step").dump());
      expect_rows(answer.json.at("trace").at(moment.at("step").get<size_t>() - 1).at("rows"),
                  moment.at("rows"));
    }
  }
  const auto& all = storage::optimizer_names();
  EXPECT_EQ(seen, std::set<std::string>(all.begin(), all.end()));
}

TEST(ScheduleConformance, LearningRatesAreThoseOfKerasFormulas) {
  std::set<std::string> seen;
  for (const Json& entry : read("schedules.json")) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    seen.insert(entry.at("case").at("name").get<std::string>());
    const Answer answer = op::answer(entry.at("case"));
    ASSERT_FALSE(answer.failed) << answer.json;
    const Json &got = answer.json.at("learning_rates"), &want = entry.at("expect").at("learning_rates");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i].get<double>(), want[i].get<double>(), 1e-12) << "step " << entry["case"]["steps"][i];
  }
  for (const std::string& name : storage::schedule_names()) EXPECT_TRUE(seen.contains(name)) << name;
}

Json ask(const char* text) { return op::answer(std::string(text)).json; }

TEST(OptimizerOp, SlotsAreNamedAndRowsWithoutGradientStand) {
  const Json json = ask(R"({"op": "optimizer", "name": "sgd", "params": {"momentum": 0.5},
      "rows": {"a": [1, 2], "b": [3, 4]},
      "steps": [{"keys": ["a"], "grads": [[1, -1]], "lr": 0.5}, {"keys": [], "grads": []},
                {"keys": ["a", "a"], "grads": [[1, 0], [0, 1]], "lr": 1}]})");
  EXPECT_EQ(json.at("trace"), Json::parse(R"([
      {"rows": {"a": [0.5, 2.5], "b": [3, 4]}, "slots": {"momentum": {"a": [1, -1], "b": [0, 0]}}},
      {"rows": {"a": [0.5, 2.5], "b": [3, 4]}, "slots": {"momentum": {"a": [1, -1], "b": [0, 0]}}},
      {"rows": {"a": [-1, 2], "b": [3, 4]}, "slots": {"momentum": {"a": [1.5, 0.5], "b": [0, 0]}}}])"))
      << json;
}

TEST(OptimizerOp, ASlotOfTheWholeRowIsOneNumber) {
  const Json json = ask(R"({"op": "optimizer", "name": "rowwise_adagrad", "rows": {"a": [1, 2]},
      "steps": [{"keys": ["a"], "grads": [[1, 3]], "lr": null}]})");
  EXPECT_EQ(json.at("trace").at(0).at("slots"), Json::parse(R"({"accumulator": {"a": [5]}})"));
}

TEST(OptimizerOp, AStepWithoutALearningRateTakesTheSchedules) {
  const Json json = ask(R"({"op": "optimizer", "name": "sgd", "rows": {"a": [0]},
      "schedule": {"name": "piecewise", "params": {"boundaries": [0], "values": [1, 0.25]}},
      "steps": [{"keys": ["a"], "grads": [[-1]]}, {"keys": ["a"], "grads": [[-1]]},
                {"keys": ["a"], "grads": [[-1]], "lr": 8}]})");
  const Json& trace = json.at("trace");
  EXPECT_EQ(trace.at(0).at("rows").at("a").at(0), 1);
  EXPECT_EQ(trace.at(1).at("rows").at("a").at(0), 1.25);
  EXPECT_EQ(trace.at(2).at("rows").at("a").at(0), 9.25);
}

TEST(InitializerOp, RowsDependOnSeedTableAndKeyOnly) {
  const Json all = ask(R"({"op": "initializer", "name": "normal", "params": {"stddev": 2}, "seed": 3,
      "table": "t", "keys": ["x", "y"], "dim": 4})");
  const Json one = ask(R"({"op": "initializer", "name": "normal", "params": {"stddev": 2}, "seed": 3,
      "table": "t", "keys": ["y"], "dim": 4})");
  const Json other = ask(R"({"op": "initializer", "name": "normal", "params": {"stddev": 2}, "seed": 3,
      "table": "u", "keys": ["y"], "dim": 4})");
  ASSERT_EQ(all.at("rows").size(), 2u);
  EXPECT_EQ(all.at("rows").at("y"), one.at("rows").at("y"));
  EXPECT_NE(all.at("rows").at("y"), other.at("rows").at("y"));
}

TEST(InitializerOp, ConstantsAndIntegerKeys) {
  EXPECT_EQ(
      ask(R"({"op": "initializer", "name": "constant", "params": {"value": 2.5}, "keys": [-7], "dim": 2})"),
      Json::parse(R"({"rows": {"-7": [2.5, 2.5]}})"));
}

struct Bad {
  const char* text;
  std::vector<std::string> parts;
};

TEST(TrainingOps, BadCasesAreErrorsThatSayWhatIsWrong) {
  const std::vector<Bad> cases = {
      {R"({"op": "optimizer", "name": "adma", "rows": {"a": [1]}, "steps": []})", {"'adma'", "'adam'"}},
      {R"({"op": "optimizer", "name": "adam", "params": {"beta1": 1}, "rows": {"a": [1]}, "steps": []})",
       {"'beta1'", "'beta_1'"}},
      {R"({"op": "optimizer", "name": "adam", "params": {"clipnom": 1}, "rows": {"a": [1]}, "steps": []})",
       {"'clipnom'", "'clipnorm'"}},
      {R"({"op": "optimizer", "name": "adam", "params": {"beta_1": 1}, "rows": {"a": [1]}, "steps": []})",
       {"beta_1 = 1"}},
      {R"({"op": "optimizer", "name": "adam", "params": {"beta_1": "x"}, "rows": {"a": [1]}, "steps": []})",
       {"params.beta_1"}},
      {R"({"op": "optimizer", "name": "adam", "params": [], "rows": {"a": [1]}, "steps": []})", {"params"}},
      {R"({"op": "optimizer", "rows": {"a": [1]}, "steps": []})", {"name"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {}, "steps": []})", {"rows"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1], "b": [1, 2]}, "steps": []})",
       {"rows.b", "2"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1]}, "steps": [{"keys": ["q"], "grads": [[1]]}]})",
       {"steps[0]", "'q'"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1]}, "steps": [{"keys": ["a"], "grads": [[1, 2]]}]})",
       {"steps[0].grads", "[1, 2]", "[1, 1]"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1]}, "steps": [{"keys": ["a"], "grads": [["nan"]]}]})",
       {"steps[0].grads", "'a'", "NaN"}},
      {R"({"op": "optimizer", "name": "adam", "rows": {"a": [1]}, "steps": [{"keys": ["a"], "grads": [[1e19]]}]})",
       {"'a'", "infinite"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1]},
           "steps": [{"keys": ["a"], "grads": [[1e18]], "lr": 1e30}]})",
       {"steps[0]", "'a'", "infinite"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1]},
           "steps": [{"keys": ["a"], "grads": [[1]], "lr": -1}]})",
       {"steps[0].lr", "-1"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1]}, "steps": 3})", {"steps"}},
      {R"({"op": "optimizer", "name": "sgd", "rows": {"a": [1]}, "schedule": {"name": "cosin"}, "steps": []})",
       {"schedule", "'cosin'", "'cosine'"}},
      {R"({"op": "schedule", "name": "cosine", "params": {"initial_learning_rate": 1}, "steps": [0]})",
       {"'decay_steps'"}},
      {R"({"op": "schedule", "name": "cosine", "params": {"decay_steps": 5}, "steps": [0]})",
       {"'initial_learning_rate'"}},
      {R"({"op": "schedule", "name": "constant", "params": {"initial_learning_rate": 1}, "steps": [-1]})",
       {"-1"}},
      {R"({"op": "schedule", "name": "constant", "params": {"initial_learning_rate": 1}, "steps": [0.5]})",
       {"steps", "0.5"}},
      {R"({"op": "schedule", "name": "piecewise", "params": {"boundaries": [1], "values": [1]}, "steps": [0]})",
       {"1 values for 1 boundaries"}},
      {R"({"op": "schedule", "name": "piecewise", "params": {"boundaries": [2, 1], "values": [1, 2, 3]}, "steps": []})",
       {"ascend"}},
      {R"({"op": "initializer", "name": "normla", "keys": [1], "dim": 2})", {"'normla'", "'normal'"}},
      {R"({"op": "initializer", "name": "normal", "keys": [1, "a"], "dim": 2})", {"keys"}},
      {R"({"op": "initializer", "name": "normal", "keys": [1]})", {"dim"}},
      {R"({"op": "initializer", "name": "normal", "keys": [1], "dim": 0})", {"dim is 0"}},
      {R"({"op": "initializer", "name": "normal", "keys": [1], "dim": 4000000000000})", {"too many"}},
  };
  for (const Bad& bad : cases) {
    const Answer answer = op::answer(std::string(bad.text));
    ASSERT_TRUE(answer.failed) << bad.text << " gave " << answer.json;
    for (const std::string& part : bad.parts)
      EXPECT_NE(answer.json.at("error").get<std::string>().find(part), std::string::npos)
          << "no " << part << " in " << answer.json << " of " << bad.text;
  }
}

}  // namespace
}  // namespace embers::op
