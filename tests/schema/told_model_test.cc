// What a worker tells of a job without model and data of its own.
#include "schema/messages/told_model.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

ToldModel example() {
  ToldModel told;
  TableSpec table;
  table.name = "user";
  table.dim = 4;
  table.key_kind = KeyKind::kBytes;
  table.initializer = {"normal", {{"stddev", 0.5}}};
  table.update_rule = {
      "adam", {{"learning_rate", 0.25}}, {"exponential_decay", {{"decay_rate", 0.5}}, {}, {}}};
  table.constraint = {"max_norm", {{"max_value", 2}}};
  told.model.tables = {table, dense_table({"", {}}), buffer_table()};
  told.model.dense = {{"w", {2, 600}, false}, {"empty", {0, 3}, false}, {"mean", {5}, true}};
  told.records = 25;
  told.batch_size = 10;
  told.epochs = 3;
  return told;
}

Message<wire::JoinRequest> message(const ToldModel& told, const FirstValues& values) {
  return make_message<wire::JoinRequest>(
      [&](wire::JoinRequest::Builder b) { write(b.initTold(), told, values); });
}

TEST(ToldModel, ArrivesAsItWasTold) {
  const std::vector<float> dense(2 * kDenseChunk, 1.5f), buffers(kDenseChunk, 2.5f);
  const auto m = message(example(), {dense, buffers});
  const ToldModel told = read(m.get().getTold());
  EXPECT_EQ(told.model.tables, example().model.tables);
  EXPECT_EQ(told.model.dense, example().model.dense);
  EXPECT_EQ(difference(told, example()), "");
  EXPECT_EQ(told.minibatches(), 3u);
  const FirstValues values = read_values(m.get().getTold());
  EXPECT_EQ(std::vector<float>(values.dense.begin(), values.dense.end()), dense);
  EXPECT_EQ(std::vector<float>(values.buffers.begin(), values.buffers.end()), buffers);
}

TEST(ToldModel, CountsMinibatches) {
  ToldModel told = example();
  told.drop_last = true;
  EXPECT_EQ(told.minibatches(), 2u);
  told.records = 30;
  EXPECT_EQ(told.minibatches(), 3u);
}

TEST(ToldModel, IsRefusedIfItCannotBe) {
  const auto refused = [](std::initializer_list<std::string> parts, const auto& change) {
    ToldModel told = example();
    change(told);
    expect_error(ErrorCode::kInvalid, parts, [&] { check(told); });
  };
  refused({"neither embedding tables nor parameters"}, [](auto& t) { t.model = {}; });
  refused({"two tables 'user'"}, [](auto& t) { t.model.tables[1] = t.model.tables[0]; });
  refused({"'user' has dim 0"}, [](auto& t) { t.model.tables[0].dim = 0; });
  refused({"'_dense' is reserved"}, [](auto& t) { t.model.tables[1].dim = 4; });
  refused({"two parameters 'w'"}, [](auto& t) { t.model.dense[1].name = "w"; });
  refused({"'w' has a negative size"}, [](auto& t) { t.model.dense[0].shape = {-1}; });
  refused({"'w' [4294967296, 4294967296]", "more than"}, [](auto& t) {
    t.model.dense[0].shape = {int64_t{1} << 32, int64_t{1} << 32};
  });
  refused({"no work: 25 records in minibatches of 0"}, [](auto& t) { t.batch_size = 0; });
  refused({"minibatches of 26 (a short last one is left out)"}, [](auto& t) {
    t.batch_size = 26;
    t.drop_last = true;
  });
  refused({"0 epochs"}, [](auto& t) { t.epochs = 0; });
  const std::vector<float> few(7);
  const auto m = message(example(), {few, {}});
  expect_error(ErrorCode::kBadFrame, {"7 floats", "parameters of 2048"},
               [&] { read_values(m.get().getTold()); });
}

TEST(ToldModel, DiffersInWords) {
  const auto differs = [](const auto& change) {
    ToldModel other = example();
    change(other);
    return difference(example(), other);
  };
  EXPECT_EQ(differs([](auto& t) {
              t.model.tables[0].initializer = {"zeros", {}};
            }),
            "table 'user': initializer normal { stddev = 0.5 } at the master, zeros at the worker");
  EXPECT_EQ(
      differs([](auto& t) { t.model.tables[0].update_rule.schedule = {}; }),
      "table 'user': optimizer adam { learning_rate = 0.25, schedule = exponential_decay { decay_rate = "
      "0.5 } } at the master, adam { learning_rate = 0.25 } at the worker");
  EXPECT_EQ(differs([](auto& t) { t.model.tables[0].constraint = {}; }),
            "table 'user': constraint max_norm { max_value = 2 } at the master, none at the worker");
  EXPECT_EQ(differs([](auto& t) { t.model.tables[0].input_dim = 9; }),
            "table 'user': rows 0 at the master, 9 at the worker");
  EXPECT_EQ(differs([](auto& t) { t.model.tables[0].number_type = NumberType::kFloat16; }),
            "table 'user': dtype float32 at the master, float16 at the worker");
  EXPECT_EQ(differs([](auto& t) { t.model.tables[0].partition = Partition::kEncoding; }),
            "table 'user': partition token at the master, encoding at the worker");
  EXPECT_EQ(differs([](auto& t) { t.records = 26; }), "records 25 at the master, 26 at the worker");
  EXPECT_EQ(differs([](auto& t) { t.drop_last = true; }),
            "drop_last false at the master, true at the worker");
}

}  // namespace
}  // namespace embers
