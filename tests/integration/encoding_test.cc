// Tables whose columns are spread over shards: the same bits as with whole rows.
#include <fmt/format.h>

#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

const Words kEncoding = set({R"(storage.tables={"*"={partition="encoding"}})"});
const Words kSync = set({"training.mode=sync", "training.grads_to_wait=3", "training.epochs=1"});

Words shards(int number) { return set({fmt::format("storage.shards={}", number)}); }
Words dim(int columns) { return set({fmt::format("model.dim={}", columns)}); }

struct Case {
  const char* name;
  Words settings;
  int dim, shards;
};

class Encoding : public testing::TestWithParam<Case> {};

TEST_P(Encoding, EndsInTheBitsOfTokenWithEveryElementwiseOptimizer) {
  JobFolder folder;
  Words optimizer{std::string("optimizer.name=") + GetParam().name};
  const Words job = kSync + dim(GetParam().dim) + set(optimizer + GetParam().settings);
  const std::string expected = folder.train(job);
  ASSERT_GT(expected.size(), 1000u);
  const auto report = folder.report();
  const Words split = job + kEncoding + shards(GetParam().shards) + set({"training.workers=2"});
  EXPECT_EQ(folder.train(split), expected);
  for (const char* count : {"rows", "examples", "version", "keys_pulled"})
    if (report.contains(count)) EXPECT_EQ(folder.report()[count], report[count]) << count;
}

INSTANTIATE_TEST_SUITE_P(
    , Encoding,
    testing::Values(Case{"sgd",
                         {"optimizer.momentum=0.9", "optimizer.nesterov=true", "optimizer.weight_decay=0.01"},
                         3,
                         2},
                    Case{"adagrad", {"optimizer.clipvalue=0.001"}, 7, 2},
                    Case{"rmsprop", {"optimizer.centered=true", "optimizer.momentum=0.5"}, 10, 3},
                    Case{"adadelta", {}, 10, 4}, Case{"adam", {"optimizer.amsgrad=true"}, 7, 3},
                    Case{"adamw", {}, 3, 5}, Case{"adamax", {}, 1, 5}, Case{"nadam", {}, 10, 5},
                    Case{"ftrl", {"optimizer.l1_regularization_strength=0.01"}, 7, 4},
                    Case{"lion", {"optimizer.schedule={name=\"cosine\", decay_steps=30}"}, 10, 2}),
    [](const auto& p) { return std::string(p.param.name); });

TEST(EncodingOf, EveryDimIsTheSameOnEveryNumberOfShards) {
  JobFolder folder;
  for (const int columns : {1, 3, 10}) {
    const std::string expected = folder.train(kSync + dim(columns));
    for (const int number : {1, 2, 4, 5})
      EXPECT_EQ(folder.train(kSync + dim(columns) + kEncoding + shards(number)), expected)
          << columns << " columns on " << number << " shards";
  }
}

TEST(EncodingOf, RowsThatAreHalvesRoundsByTheColumnsOfWholeRows) {
  JobFolder folder;
  for (const char* type : {"float16", "bfloat16"}) {
    const Words job = kSync + dim(7) +
                      set({std::string("storage.dtype=") + type, "storage.rounding=stochastic",
                           std::string("storage.wire_dtype=") + type});
    const std::string expected = folder.train(job);
    EXPECT_EQ(folder.train(job + kEncoding + shards(3)), expected) << type;
    EXPECT_EQ(folder.train(job + kEncoding + shards(2) + set({"training.workers=2"})), expected) << type;
  }
}

TEST(EncodingOf, InitializersAreThoseOfWholeRows) {
  JobFolder folder;
  for (const char* name : {"normal", "truncated_normal", "glorot_uniform", "he_normal", "constant"}) {
    const auto with = [&](const std::string& partition) {
      return kSync + dim(10) +
             set({fmt::format(R"(storage.tables={{"*"={{initializer="{}", partition="{}"}}}})", name,
                              partition)});
    };
    EXPECT_EQ(folder.train(with("encoding") + shards(4)), folder.train(with("token"))) << name;
  }
}

TEST(EncodingOf, AJobGoesOnFromCheckpointsOfEitherPartition) {
  JobFolder folder;
  const Words job = kSync + dim(7), twice = set({"training.epochs=2"});
  const std::string expected = folder.train(job + twice);
  const Words save = {"--output", folder.path("model")}, resume = {"--resume", folder.path("model")};

  folder.train(job + kEncoding + shards(3) + save);
  const auto manifest = nlohmann::json::parse(folder.read("model/manifest.json"));
  EXPECT_EQ(manifest["format"], 2);
  bool found = false;
  for (size_t t = 0; t < manifest["tables"].size(); ++t) {
    if (manifest["tables"][t]["dim"] != 7) continue;
    found = true;
    EXPECT_EQ(manifest["tables"][t]["partition"], "encoding");
    const auto& columns = manifest["files"][t]["columns"];
    ASSERT_EQ(columns.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(columns[i]["begin"], 3 * i);
      EXPECT_EQ(columns[i]["end"], i < 2 ? 3 * i + 3 : 7);
    }
  }
  EXPECT_TRUE(found) << manifest["tables"].dump();
  EXPECT_EQ(folder.train(job + twice + shards(2) + resume), expected) << "to token";
  EXPECT_EQ(folder.train(job + twice + kEncoding + shards(5) + resume), expected) << "to more shards";
  EXPECT_EQ(folder.train(job + twice + kEncoding + shards(3) + resume), expected) << "to as many";
  EXPECT_EQ(folder.train(job + twice + resume), expected) << "to one shard";

  const auto evaluated = [&](const Words& words) {
    EXPECT_EQ(folder.run(Words{"evaluate", folder.job(), "--model", folder.path("model"), "--report",
                               folder.path("e.json")} +
                         dim(7) + words),
              0)
        << folder.output();
    auto report = folder.report("e.json");
    return nlohmann::json{report["auc"], report["test_loss"], report["rows"]}.dump();
  };
  const std::string numbers = evaluated({});
  EXPECT_EQ(evaluated(kEncoding + shards(4)), numbers);

  folder.train(job + shards(2) + save);
  EXPECT_EQ(nlohmann::json::parse(folder.read("model/manifest.json"))["format"], 1);
  EXPECT_EQ(evaluated(kEncoding + shards(3)), numbers);
  EXPECT_EQ(folder.train(job + twice + kEncoding + shards(4) + resume), expected) << "from token";
}

TEST(EncodingOf, ProcessesLeaveNoTraceOfAKilledWorker) {
  JobFolder folder;
  const Words job = kSync + folder.probe("slow") + set({"model.sleep_ms=20", "training.epochs=6"});
  const std::string expected = folder.train(job);
  Cluster cluster(folder, 3, 3, job + kEncoding);
  ASSERT_TRUE(cluster.is_training());
  cluster.workers[0]->signal(SIGKILL);
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(folder.read("rows"), expected);
  EXPECT_EQ(folder.report()["workers_lost"], 1);
  EXPECT_EQ(folder.report()["examples"], 6 * JobFolder::kRecords);
}

TEST(EncodingOf, AnAsyncJobAppliesEveryRecordOnce) {
  JobFolder folder;
  folder.train(folder.probe("count") + kEncoding +
               set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.workers=2",
                    "storage.shards=3", "training.epochs=1"}));
  expect_each_record_counted_once(folder, 1);
}

class EncodingAt : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, EncodingAt, testing::Values("memcached", "redis"),
                         [](const auto& param) { return param.param; });

TEST_P(EncodingAt, ServersEndsInTheSameBits) {
  JobFolder folder;
  const Words job = kSync + dim(7);
  const Words servers = set({"storage.backend=" + GetParam()});
  const std::string expected = folder.train(job);
  EXPECT_EQ(folder.train(job + kEncoding + servers + shards(3)), expected);
  const Words save = {"--output", folder.path("model")}, resume = {"--resume", folder.path("model")};
  const std::string twice = folder.train(job + set({"training.epochs=2"}));
  folder.train(job + kEncoding + servers + shards(2) + save);
  EXPECT_EQ(folder.train(job + servers + kEncoding + shards(3) + set({"training.epochs=2"}) + resume), twice);
  EXPECT_EQ(folder.train(job + shards(2) + set({"training.epochs=2"}) + resume), twice);
}

// Async jobs read rows straight from servers, but not those whose columns are spread.
TEST_P(EncodingAt, ServersOfAnAsyncJobAppliesEveryRecordOnce) {
  JobFolder folder;
  folder.train(folder.probe("count") + kEncoding +
               set({"storage.backend=" + GetParam(), "optimizer.name=sgd", "optimizer.learning_rate=1",
                    "training.workers=2", "storage.shards=2", "training.epochs=1"}));
  expect_each_record_counted_once(folder, 1);
}

TEST(EncodingOf, WhatNeedsWholeRowsIsRefusedWithItsPlace) {
  JobFolder folder;
  const std::string job = folder.read("job.toml");
  const auto expect_refused = [&](const std::string& optimizer, const std::string& table,
                                  const std::string& why) {
    folder.write(
        "bad.toml",
        job + "[storage]\nshards = 2\n[storage.tables]\n\"*\" = { partition = \"encoding\"" + table + " }\n");
    for (const char* command : {"check", "train"}) {
      if (command == std::string("train") && optimizer.find("clipnorm") == std::string::npos) continue;
      EXPECT_EQ(folder.run(Words{command, folder.path("bad.toml")} + set({"training.mode=sync"}) +
                           (optimizer.empty() ? Words{} : set({"optimizer=" + optimizer}))),
                2);
      EXPECT_NE(folder.output().find("bad.toml:21: table '"), std::string::npos) << folder.output();
      EXPECT_NE(folder.output().find("' cannot have partition = \"encoding\", by which each shard has some "
                                     "columns of every row: " +
                                     why + "; use partition = \"token\""),
                std::string::npos)
          << folder.output();
    }
  };
  expect_refused("{name=\"rowwise_adagrad\"}", "", "optimizer 'rowwise_adagrad' needs whole rows");
  expect_refused("{name=\"group_ftrl\"}", "", "optimizer 'group_ftrl' needs whole rows");
  expect_refused("{name=\"adam\", clipnorm=1}", "", "clipnorm needs the norms of whole rows");
  expect_refused("{name=\"adam\", global_clipnorm=1}", "", "global_clipnorm needs the norms of whole rows");
  for (const char* constraint : {"max_norm", "unit_norm", "min_max_norm", "renorm"})
    expect_refused("", fmt::format(", constraint = \"{}\"", constraint),
                   fmt::format("constraint '{}' needs whole rows", constraint));
  folder.write("bad.toml", job + "[storage.tables]\n\"*\" = { partition = \"rows\" }\n");
  EXPECT_EQ(folder.run({"check", folder.path("bad.toml")}), 2);
  EXPECT_NE(folder.output().find("partition must be token, encoding or auto, not 'rows'"), std::string::npos)
      << folder.output();
  EXPECT_EQ(folder.run(Words{"check", folder.job()} + kEncoding +
                       set({"optimizer={name=\"group_ftrl\"}", "storage.shards=1"})),
            0)
      << "one shard has whole rows: " << folder.output();
}

TEST(EncodingOf, TablesIsSaidByCheck) {
  JobFolder folder;
  const Words two = set({"storage.shards=2"});
  const auto checked = [&](const Words& options) {
    EXPECT_EQ(folder.run(Words{"check", folder.job()} + two + options), 0) << folder.output();
    return folder.output();
  };
  EXPECT_EQ(checked({}).find("partition"), std::string::npos);
  EXPECT_NE(checked(kEncoding).find(", partition encoding\n"), std::string::npos) << folder.output();
  const std::string automatic = checked(set({R"(storage.tables={"*"={partition="auto"}})"}));
  EXPECT_NE(automatic.find(", partition token\n"), std::string::npos) << automatic;
  EXPECT_NE(automatic.find(": token, because it may have any number of rows"), std::string::npos)
      << automatic;
}

// What rows and constraints of single elements do.
TEST(EncodingOf, AConstraintOfElementsIsKept) {
  JobFolder folder;
  const auto with = [](const char* partition) {
    return kSync + dim(3) +
           set({fmt::format(R"(storage.tables={{"*"={{constraint="non_neg", partition="{}"}}}})",
                            partition)});
  };
  EXPECT_EQ(folder.train(with("encoding") + shards(2)), folder.train(with("token")));
}

}  // namespace
}  // namespace embers::testing_support
