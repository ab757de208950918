// Optimizers, schedules, clipping and bad gradients in whole jobs.
#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

Words sync_with(const Words& optimizer) {
  return set({"training.mode=sync", "training.grads_to_wait=3", "training.epochs=1"}) + set(optimizer);
}

struct Case {
  const char* name;
  Words settings;
};

class Optimizers : public testing::TestWithParam<Case> {};

// Slots of every kind survive a checkpoint, and another number of shards.
TEST_P(Optimizers, ResumedOnMoreShardsTrainsAsIfNeverStopped) {
  JobFolder folder;
  const Words job = sync_with(Words{std::string("optimizer.name=") + GetParam().name} + GetParam().settings);
  const std::string whole = folder.train(job + set({"training.epochs=2"}));
  folder.train(job + Words{"--output", folder.path("model")});
  EXPECT_EQ(folder.train(job + set({"training.epochs=2", "storage.shards=3"}) +
                         Words{"--resume", folder.path("model")}),
            whole);
}

INSTANTIATE_TEST_SUITE_P(
    , Optimizers,
    testing::Values(Case{"sgd", {"optimizer.momentum=0.9", "optimizer.nesterov=true"}},
                    Case{"rmsprop", {"optimizer.centered=true", "optimizer.momentum=0.5"}},
                    Case{"adam",
                         {"optimizer.amsgrad=true", "optimizer.schedule={name=\"cosine\", decay_steps=30}"}},
                    Case{"adamw", {"optimizer.global_clipnorm=0.1"}},
                    Case{"ftrl", {"optimizer.l1_regularization_strength=0.01"}},
                    Case{"rowwise_adagrad", {"optimizer.clipnorm=0.01"}}),
    [](const auto& p) { return std::string(p.param.name); });

TEST(Resume, WithOtherSlotsOfTheSameOptimizerIsRefused) {
  JobFolder folder;
  folder.train({"--output", folder.path("model")});
  EXPECT_EQ(folder.run(Words{"train", folder.job(), "--resume", folder.path("model")} +
                       set({"optimizer.amsgrad=true", "training.epochs=3"})),
            2);
  EXPECT_NE(folder.output().find("adam [m, v], this job uses adam [m, v, v_hat]"), std::string::npos)
      << folder.output();
}

TEST(Clipping, TheGlobalNormDoesNotDependOnShards) {
  JobFolder folder;
  const Words clipped = sync_with({"optimizer.global_clipnorm=0.05"});
  const std::string one = folder.train(clipped);
  EXPECT_NE(one, folder.train(sync_with({"optimizer.global_clipnorm=1000000"}))) << "it does clip";
  EXPECT_EQ(one, folder.train(clipped + set({"storage.shards=4", "training.workers=2"})));
}

TEST(Clipping, ByNormIsRefusedWhereNoOwnerSeesTheWholeGradient) {
  JobFolder folder;
  EXPECT_EQ(folder.run(Words{"train", folder.job()} + set({"optimizer.clipnorm=1", "storage.shards=2"})), 2);
  for (const char* part : {"clipvalue", "sync", "storage.shards = 1"})
    EXPECT_NE(folder.output().find(part), std::string::npos) << folder.output();
  EXPECT_EQ(folder.run(Words{"train", folder.job()} + set({"optimizer.clipnorm=1", "training.epochs=1"})), 0);
}

TEST(Clipping, DoesNotGoWithLocalSteps) {
  JobFolder folder;
  for (const char* clip : {"clipnorm", "global_clipnorm", "clipvalue"}) {
    const Words words = set({std::string("optimizer.") + clip + "=1", "training.get_model_steps=2"});
    EXPECT_EQ(folder.run(Words{"train", folder.job()} + words), 2);
    EXPECT_NE(folder.output().find("clipping does not work with get_model_steps above 1"), std::string::npos)
        << folder.output();
  }
}

// Prices that make gradients of more than a float's square holds: at least one of them, whatever the signs of
// the weights and whichever units are off.
constexpr int kBadRecords = 4;
JobFolder& with_bad_records(JobFolder& folder) {
  std::string bad;
  for (const char* end : {"3e38,yes", "3e38,no", "-3e38,yes", "-3e38,no"})
    bad += std::string("color1,1,t1,") + end + "\n";
  folder.write("train.csv", bad + folder.read("train.csv"));
  return folder;
}

TEST(BadGradient, IsLeftOutAndCountedByShardProcessesToo) {
  JobFolder folder;
  with_bad_records(folder);
  Cluster cluster(folder, 2, 2, set({"training.on_bad_gradient=skip"}));
  cluster.expect_success();
  EXPECT_GT(folder.report().at("bad_gradients"), 0) << folder.report().dump();
  EXPECT_EQ(folder.report().at("examples"), 2 * (JobFolder::kRecords + kBadRecords));
}

TEST(BadGradient, EndsTheJobNamingTableAndKey) {
  JobFolder folder;
  with_bad_records(folder);
  EXPECT_EQ(folder.run({"train", folder.job()}), 2);
  for (const char* part : {"minibatch", "epoch 1", "key '", "table '", "infinite or NaN", "on_bad_gradient"})
    EXPECT_NE(folder.output().find(part), std::string::npos) << folder.output();
}

TEST(BadGradient, CanBeLeftOutAndIsReported) {
  for (const char* mode : {"training.mode=async", "training.mode=sync"}) {
    JobFolder folder;
    const std::string dump =
        with_bad_records(folder).train(set({mode, "training.on_bad_gradient=skip", "storage.shards=2"}));
    EXPECT_GT(folder.report().at("bad_gradients"), 0) << folder.report().dump();
    EXPECT_EQ(folder.report().at("examples"), 2 * (JobFolder::kRecords + kBadRecords));
    for (const char* bad : {"nan", "inf"}) EXPECT_EQ(dump.find(bad), std::string::npos);
  }
  JobFolder folder;
  folder.train({});
  EXPECT_EQ(folder.report().at("bad_gradients"), 0);
}

// An owner that sees only some columns of a bad row does what the owner of the whole row does.
TEST(BadGradient, OfARowWhoseColumnsAreSpreadIsLeftOutByAllShardsOrEndsTheJob) {
  JobFolder folder;
  with_bad_records(folder);
  const Words split =
      set({R"(storage.tables={"*"={partition="encoding"}})", "storage.shards=3", "training.mode=sync"});
  const Words skip = set({"training.mode=sync", "training.on_bad_gradient=skip"});
  for (const Words& wire : {Words{}, set({"storage.wire_dtype=bfloat16"})}) {
    const std::string expected = folder.train(skip + wire);
    const auto bad = folder.report().at("bad_gradients");
    EXPECT_GT(bad, 0);
    EXPECT_EQ(folder.train(skip + split + wire), expected);
    EXPECT_EQ(folder.report().at("bad_gradients"), bad);
  }
  EXPECT_EQ(folder.run(Words{"train", folder.job()} + split), 2);
  for (const char* part : {"minibatch", "key '", "table '", "infinite or NaN", "on_bad_gradient"})
    EXPECT_NE(folder.output().find(part), std::string::npos) << folder.output();
}

TEST(OptimizerOfAJob, WhatIsWrongIsToldWithItsPlace) {
  JobFolder folder;
  const std::string job = folder.read("job.toml");
  const auto expect_refused = [&](const std::string& lines, const Words& parts) {
    std::string text = job;
    text.replace(text.find("name = \"adam\"\nlearning_rate = 0.01\n"), 35, lines);
    folder.write("bad.toml", text);
    EXPECT_EQ(folder.run({"check", folder.path("bad.toml")}), 2) << lines;
    for (const std::string& part : parts)
      EXPECT_NE(folder.output().find(part), std::string::npos) << part << " is not in " << folder.output();
  };
  expect_refused("name = \"adma\"\n", {"bad.toml:13", "'adma'", "did you mean 'adam'?"});
  expect_refused("name = \"adam\"\nbeta1 = 0.5\n", {"bad.toml", "'beta1'", "did you mean 'beta_1'?"});
  expect_refused("name = \"adam\"\nclipnorm = 1\nclipvalue = 1\n", {"only one of"});
  expect_refused("name = \"adam\"\nschedule = 3\n", {"bad.toml:14", "'schedule' must be a table"});
  expect_refused("name = \"adam\"\nschedule = { name = \"cosin\" }\n", {"'cosin'", "did you mean 'cosine'?"});
  expect_refused("name = \"adam\"\n[optimizer.schedule]\ndecay_steps = 3\n",
                 {"bad.toml:14", "needs a 'name'"});
  expect_refused("name = \"adam\"\n[optimizer.schedule]\nname = \"piecewise\"\nvalues = [\"x\"]\n",
                 {"bad.toml:16", "'values' must be a list of finite numbers"});
  expect_refused(
      "name = \"adam\"\n[optimizer.schedule]\nname = \"piecewise\"\nvalues = [1]\n"
      "[storage.tables]\n\"*\" = { learning_rate = 0.5 }\n",
      {"bad.toml:18", "not both"});
  expect_refused(
      "name = \"adam\"\n[storage.tables]\ncolor = { optimizer = { name = \"sgd\", momentun = 1 } }\n",
      {"bad.toml:15", "did you mean 'momentum'?"});
}

}  // namespace
}  // namespace embers::testing_support
