// Rows that programs take out of a running job and put into it, and rows that are pulled late.
#include <gtest/gtest.h>

#include "tests/client/running_job.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;
using client::Minibatch;
using client::Session;
using Row = std::vector<float>;

std::map<int64_t, Row> rows_of(Session& session, const std::string& table) {
  std::map<int64_t, Row> all;
  session.scan(table, [&](const client::TableKeys& keys, std::span<const float> rows) {
    const size_t dim = rows.size() / keys.ints.size();
    for (size_t i = 0; i < keys.ints.size(); ++i)
      EXPECT_TRUE(
          all.emplace(keys.ints[i], Row(rows.begin() + i * dim, rows.begin() + (i + 1) * dim)).second);
  });
  return all;
}

void push(Minibatch minibatch, std::vector<std::span<const float>> rows) {
  const std::vector<float> w{1, 2, 3}, scores(2, 0.5f);
  const std::span<const float> parameters[] = {w};
  minibatch.push(rows, parameters, {.examples = 2, .scores = scores});
}

class WholeTable : public testing::TestWithParam<Partition> {};
INSTANTIATE_TEST_SUITE_P(, WholeTable, testing::Values(Partition::kToken, Partition::kEncoding),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST_P(WholeTable, ComesOutAsItWasImported) {
  RunningJob job({.shards = 3, .minibatches = 2, .partition = GetParam()});
  Session session = Session::join_as_worker(job.worker_options());
  std::vector<int64_t> keys;
  Row rows;
  std::map<int64_t, Row> expected;
  for (int64_t key = -50; key < 50; ++key) {
    keys.push_back(key * 1000003);
    expected[keys.back()] = {static_cast<float>(key), 0.5f};
    rows.insert(rows.end(), {static_cast<float>(key), 0.5f});
  }
  EXPECT_TRUE(rows_of(session, "user").empty());
  session.import_rows({.table = "user", .ints = keys}, rows);
  EXPECT_EQ(rows_of(session, "user"), expected);
  Row looked(rows.size());
  session.lookup("user", keys, looked);
  EXPECT_EQ(looked, rows);
  const std::vector<std::string_view> words{"a", "", "bc"};
  session.import_rows({.table = "word", .bytes = words}, Row{1, 2, 3});
  std::map<std::string, float> found;
  session.scan("word", [&](const client::TableKeys& some, std::span<const float> values) {
    for (size_t i = 0; i < some.bytes.size(); ++i) found[std::string(some.bytes[i])] = values[i];
  });
  EXPECT_EQ(found, (std::map<std::string, float>{{"a", 1}, {"", 2}, {"bc", 3}}));
  session.import_rows({.table = "user", .ints = std::span(keys).first(1)}, Row{7, 7});
  EXPECT_EQ(rows_of(session, "user")[keys[0]], (Row{7, 7}));
}

TEST(WholeTables, AreChangedByWorkersOnlyAndAsTheyAre) {
  RunningJob job({.minibatches = 2});
  Session session = Session::join_as_worker(job.worker_options());
  const std::vector<int64_t> keys{1, 2};
  const auto import = [&](Session& with, const client::TableKeys& list, const Row& rows) {
    return [&with, list, rows] { with.import_rows(list, rows); };
  };
  expect_error(ErrorCode::kInvalid, {"2 rows of table 'user'", "3 floats", "4 are needed"},
               import(session, {.table = "user", .ints = keys}, Row(3)));
  expect_error(ErrorCode::kInvalid, {"'word' has byte", "int64"},
               import(session, {.table = "word", .ints = keys}, Row(2)));
  expect_error(ErrorCode::kUnknownTable, {"'usr'", "user"},
               import(session, {.table = "usr", .ints = keys}, Row(4)));
  expect_error(ErrorCode::kUnknownTable, {"_dense"},
               import(session, {.table = "_dense", .ints = keys}, Row(4)));
  session.import_rows({.table = "user", .ints = keys}, Row{1, 2, 3, 4});
  Session reader = Session::join_as_reader(job.options());
  EXPECT_EQ(rows_of(reader, "user"), (std::map<int64_t, Row>{{1, {1, 2}}, {2, {3, 4}}}));
  expect_error(ErrorCode::kInvalid, {"reader", "changes nothing"},
               import(reader, {.table = "user", .ints = keys}, Row(4)));
}

TEST(WholeTables, ParametersAreReadAsTheyAre) {
  RunningJob job({.mode = "sync", .minibatches = 2});
  Session session = Session::join_as_worker(job.worker_options());
  EXPECT_EQ(session.parameters(), (std::vector<Row>{{0.5f, 0.5f, 0.5f}}));
  Minibatch first = session.lease();
  first.pull({});
  ASSERT_TRUE(first.wait());
  push(std::move(first), {});
  Minibatch second = session.lease();  // of the next version
  EXPECT_EQ(session.parameters(), (std::vector<Row>{{-0.5f, -1.5f, -2.5f}}));
}

TEST(LatePulls, AddRowsWhoseGradientsArePushedWithTheOthers) {
  for (const std::string mode : {"async", "sync"}) {
    RunningJob job({.mode = mode, .minibatches = 1});
    Session session = Session::join_as_worker(job.worker_options());
    const std::vector<int64_t> first{5, 6}, more{7}, last{8};
    const std::vector<std::string_view> words{"a"};
    Minibatch minibatch = session.lease();
    const client::TableKeys list[] = {{.table = "user", .ints = first}};
    minibatch.pull(list);
    expect_error(ErrorCode::kInvalid, {"pull more for", "not been waited for"},
                 [&] { minibatch.pull_more(list); });
    ASSERT_TRUE(minibatch.wait());
    const client::TableKeys late[] = {{.table = "word", .bytes = words}, {.table = "user", .ints = more}};
    ASSERT_TRUE(minibatch.pull_more(late));
    const client::TableKeys latest[] = {{.table = "user", .ints = last}};
    ASSERT_TRUE(minibatch.pull_more(latest));
    std::map<int64_t, Row> before;
    for (const int64_t key : {5, 6, 7, 8}) before[key] = job.row("user", Keys(std::vector<int64_t>{key}));
    EXPECT_EQ(Row(minibatch.rows(2).begin(), minibatch.rows(2).end()), before[7]);
    EXPECT_EQ(minibatch.rows(1).size(), 1u);
    EXPECT_EQ(minibatch.rows(3).size(), kUserDim);
    const Row ones(4, 1), twos(2, 2), threes(2, 3);
    push(std::move(minibatch), {ones, {}, twos, threes});
    ASSERT_FALSE(session.lease());
    const auto change = [&](int64_t key) {
      return before[key][0] - job.row("user", Keys(std::vector<int64_t>{key}))[0];
    };
    EXPECT_NEAR(change(5), 1, 1e-5);
    EXPECT_NEAR(change(6), 1, 1e-5);
    EXPECT_NEAR(change(7), 2, 1e-5);
    EXPECT_NEAR(change(8), 3, 1e-5);
  }
}

TEST(Rows, StayWithWhoeverHoldsThem) {
  RunningJob job({.minibatches = 1});
  Session session = Session::join_as_worker(job.worker_options());
  const std::vector<int64_t> keys{5};
  std::shared_ptr<const void> held;
  std::span<const float> rows;
  {
    Minibatch minibatch = session.lease();
    const client::TableKeys list[] = {{.table = "user", .ints = keys}};
    minibatch.pull(list);
    ASSERT_TRUE(minibatch.wait());
    held = minibatch.hold();
    rows = minibatch.rows(0);
    push(std::move(minibatch), {Row{1, 1}});
  }
  EXPECT_FALSE(session.lease());
  session.close();
  const Row first = job.row("user", Keys(std::vector<int64_t>{5}));
  EXPECT_NEAR(rows[0], first[0] + 1, 1e-5);
}

TEST(Versions, OfTheProgramAndTheMasterMayHaveToBeTheSame) {
  RunningJob job;
  client::Options options = job.options();
  options.version = "9.9.9";
  expect_error(ErrorCode::kMismatch, {"embers 9.9.9", "install the same version"},
               [&] { Session::join_as_reader(options); });
}

}  // namespace
}  // namespace embers
