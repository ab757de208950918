// Without the launcher: deploy/slurm/embers.sbatch, and steps started by hand.
#include "tests/slurm/slurm_job.h"

namespace embers::testing_support {
namespace {

using Sbatch = SlurmJob;

TEST_F(Sbatch, StepsFindEachOtherAndTrainAsOneProcessDoes) {
  const Words sync = set({"training.mode=sync", "training.grads_to_wait=3"});
  const std::string expected = folder_.train(sync);
  const std::string id = submit(Words{folder_.job(), "--dump-rows", folder_.path("rows.slurm")} + sync);
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  EXPECT_EQ(folder_.read("rows.slurm"), expected);
  cluster_->show_accounts(id);
}

// Nothing but the commands: where the master is, they know from Slurm.
TEST_F(Sbatch, StepsWithoutAnyAddressFindEachOther) {
  unsetenv("EMBERS_JOB_DIR");
  folder_.write("steps.sh",
                "#!/bin/bash\ncd " + folder_.path("") + "\nembers() { srun --overlap -n1 -N1 -w $1 " +
                    path_of(EMBERS_COMMAND) +
                    " \"${@:2}\"; }\n"
                    "embers node1 master job.toml --shards 1 --workers 2 --report out.json &\n"
                    "embers node2 shard &\nembers node3 worker &\nembers node2 worker &\nwait %1\n");
  const std::string id =
      cluster_->submit({"--chdir=" + folder_.path(""), "--output=" + folder_.path("batch.log"), "-N3",
                        folder_.path("steps.sh")});
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  EXPECT_EQ(folder_.report()["examples"], 2 * JobFolder::kRecords);
}

TEST_F(Sbatch, AJobThatIsQueuedAgainSavesAndGoesOn) {
  const std::string id = submit(slow() + Words{"--output", folder_.path("model")});
  ASSERT_TRUE(is_training());
  cluster_->show("before scontrol requeue");
  cluster_->run({"scontrol", "requeue", id});
  ASSERT_EQ(cluster_->status(), 0);
  ASSERT_TRUE(wait_until([&] { return has_said("going on from " + folder_.path("model")); }));
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  cluster_->show_accounts(id);
  EXPECT_EQ(report(0)["stopped"], true);
  EXPECT_GT(report(0)["examples"], 0);
  EXPECT_EQ(report(0)["examples"].get<int>() + report()["examples"].get<int>(), 20 * JobFolder::kRecords);
}

TEST_F(Sbatch, APreemptedJobSavesMakesRoomAndGoesOn) {
  const std::string id = submit(slow() + Words{"--output", folder_.path("model")});
  ASSERT_TRUE(is_training());
  cluster_->run({"srun", "--partition=urgent", "--exclusive", "-N3", "true"});
  EXPECT_EQ(cluster_->status(), 0);
  EXPECT_TRUE(has_said("Slurm needs the nodes, or the time is up: saving"));
  ASSERT_TRUE(wait_until([&] { return has_said("going on from " + folder_.path("model")); }));
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  cluster_->show_accounts(id);
  EXPECT_EQ(report(0)["examples"].get<int>() + report()["examples"].get<int>(), 20 * JobFolder::kRecords);
}

TEST_F(Sbatch, ACancelledJobSavesAndDoesNotComeBack) {
  const std::string id = submit(slow() + Words{"--output", folder_.path("model")});
  ASSERT_TRUE(is_training());
  cluster_->run({"scancel", id});
  EXPECT_EQ(cluster_->wait_for_end(id), "CANCELLED");
  EXPECT_TRUE(std::filesystem::exists(folder_.path("model/manifest.json"))) << log();
}

TEST_F(Sbatch, AnotherNodeThatFailsTakesOnlyItsWorkerAlong) {
  const std::string id = submit(slow());
  ASSERT_TRUE(is_training());
  ASSERT_EQ(cluster_->step(id, "w0").substr(cluster_->step(id, "w0").find(' ') + 1), "node3");
  cluster_->crash("node3");
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  cluster_->show_accounts(id);
  EXPECT_TRUE(has_said("lost worker"));
  EXPECT_EQ(report()["workers_lost"], 1);
  EXPECT_EQ(report()["examples"], 20 * JobFolder::kRecords);
}

TEST_F(Sbatch, TheJobOfAScriptWhoseNodeFailsStartsAgainFromItsCheckpoint) {
  const std::string id = submit(slow() + Words{"--output", folder_.path("model"), "--save-every", "1"});
  ASSERT_TRUE(is_training());
  ASSERT_TRUE(wait_until([&] { return has_said("saved to"); }));
  cluster_->crash("node1");
  ASSERT_TRUE(cluster_->wait_for_state(id, "PENDING"));
  cluster_->revive("node1");
  ASSERT_TRUE(wait_until([&] { return has_said("going on from " + folder_.path("model")); }));
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  cluster_->show_accounts(id);
  EXPECT_EQ(report()["epochs"].back()["epoch"], 20);
}

TEST_F(Sbatch, WithoutAJobSaysHowToGiveOne) {
  const std::string id = submit({});
  EXPECT_EQ(cluster_->wait_for_end(id), "FAILED");
  EXPECT_TRUE(has_said("which job? sbatch deploy/slurm/embers.sbatch JOB")) << log();
}

}  // namespace
}  // namespace embers::testing_support
