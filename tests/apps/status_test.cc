// What embers status prints.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "apps/control/status_json.h"
#include "apps/control/status_text.h"
#include "tests/support/paths.h"

namespace embers {
namespace {

using Json = nlohmann::ordered_json;

Status::Member member(const std::string& role, uint32_t number, const std::string& state) {
  Status::Member m;
  m.name = role + " " + std::to_string(number);
  m.role = role;
  m.number = number;
  m.state = state;
  m.host = "node1";
  m.pid = 4700 + number;
  m.last_sign_s = 0.25;
  m.joined_s = 60;
  return m;
}

Status training() {
  Status s;
  s.job = "examples/census.toml";
  s.id = 0xabc;
  s.task = "train";
  s.mode = "async";
  s.phase = "training";
  s.elapsed_s = 125;
  s.remaining_s = 61;
  s.epoch = 3;
  s.epochs = 5;
  s.version = 1232;
  s.minibatches_done = 254;
  s.minibatches = 509;
  s.examples = 81234;
  s.examples_per_s = 6421;
  s.loss = 0.29137;
  s.auc = 0.92144;
  s.evaluation = Status::Evaluation{0.2987, 0.9172, 0.8655};
  s.staleness_mean = 2.414;
  s.staleness_max = 9;
  s.workers = {2, 2, 1};
  s.shards = {2, 1, 1};
  s.members = {member("worker", 0, "working"), member("worker", 10, "draining"),
               member("shard", 0, "working"), member("shard", 1, "away")};
  s.members[0].minibatches = 617;
  s.members[0].examples = 39421;
  s.members[0].pulls_per_s = s.members[0].pushes_per_s = 50.4;
  s.members[0].lag = 1;
  s.members[1].label = "w2";
  s.members[2].rows = 497;
  s.members[2].bytes = 1700000;
  s.members[2].pulls_per_s = 9.96;
  return s;
}

TEST(StatusText, IsShortAndAligned) {
  EXPECT_EQ(to_text(training()),
            R"(census.toml (async)  training  for 2m05s  about 1m01s left
epoch 3 of 5: 254 of 509 minibatches (49%)  81.2k examples  6421 examples/s
loss 0.2914  AUC 0.9214  last evaluation: loss 0.2987  AUC 0.9172  accuracy 0.8655
version 1232  staleness mean 2.41, max 9
2 of 2 workers (1 lost)  1 of 2 shards (1 lost)

MEMBER     LABEL  HOST   PID   STATE     MINIBATCHES  EXAMPLES  ROWS    MEMORY  PULLS/S  PUSHES/S  LAG  LAST SIGN
shard 0           node1  4700  working                           497  1.62 MiB     10.0       0.0    0       0.2s
shard 1           node1        away
worker 0          node1  4700  working           617     39.4k                       50        50    1       0.2s
worker 10  w2     node1  4710  draining            0         0                      0.0       0.0    0       0.2s
)");
}

TEST(StatusText, NamesCannotSpoilTheTable) {
  Status s = training();
  s.job = "jobs/red\x1b[31m.toml";
  s.members[1].label = "\x1b[2J\n\xff";
  const std::string text = to_text(s);
  EXPECT_EQ(text.rfind("red?[31m.toml (async)", 0), 0) << text;
  EXPECT_NE(text.find("worker 10  ?[2J??  node1"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST(StatusText, LeavesOutWhatIsNotKnownYet) {
  Status s;
  s.job = "census.toml";
  s.task = "predict";
  s.mode = "sync";
  s.phase = "gathering";
  s.elapsed_s = 3;
  s.workers.wanted = 2;
  s.shards.wanted = 1;
  EXPECT_EQ(to_text(s), "census.toml (sync)  predict  gathering  for 3.0s\n0 of 2 workers  0 of 1 shards\n");
  s.phase = "failed";
  s.error = "adult.data:7: 'x' is not a number";
  EXPECT_NE(to_text(s).find("\nerror: adult.data:7: 'x' is not a number\n"), std::string::npos);
}

TEST(StatusJson, HasNullForWhatDoesNotExist) {
  const Json known = to_json(training());
  EXPECT_EQ(known["job"], "census.toml");
  EXPECT_EQ(known["id"], "0000000000000abc");
  EXPECT_EQ(known["remaining_s"], 61);
  EXPECT_EQ(known["workers"]["lost"], 1);
  EXPECT_EQ(known["members"][1]["label"], "w2");
  EXPECT_TRUE(known["error"].is_null());
  const Json unknown = Json::parse(to_json(Status()).dump());
  for (const char* key : {"remaining_s", "loss", "auc", "evaluation", "error", "stopping"})
    EXPECT_TRUE(unknown[key].is_null()) << key;
  EXPECT_TRUE(unknown["staleness"]["mean"].is_null());
}

TEST(StatusJson, NamesNeedNotBeUtf8) {
  Status s = training();
  s.job = "jobs/\xff.toml";
  EXPECT_EQ(Json::parse(json_text(s))["job"], "\xef\xbf\xbd.toml");
}

TEST(StatusJson, IsExplainedKeyByKey) {
  std::ifstream in(testing_support::path_of(EMBERS_CONTROL_PAGE));
  std::ostringstream page;
  page << in.rdbuf();
  ASSERT_GT(page.str().size(), 1000u);
  const auto expect_explained = [&](const Json& object) {
    for (const auto& [key, value] : object.items())
      EXPECT_NE(page.str().find("`" + key + "`"), std::string::npos) << "docs/control.md lacks " << key;
  };
  const Json status = to_json(training());
  expect_explained(status);
  expect_explained(status["members"][0]);
  for (const char* part : {"evaluation", "staleness", "workers"}) expect_explained(status[part]);
}

}  // namespace
}  // namespace embers
