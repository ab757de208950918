// Workers that are alive and get nowhere: others do their work, and a job that has no others names them.
#include "tests/integration/jobs.h"

namespace embers::testing_support {
namespace {

constexpr int kPasses = 2;  // epochs

class Late : public testing::Test {
 protected:
  // About two seconds with two workers.
  Words job(const std::string& model, const std::string& mode) const {
    return folder_.probe(model) + set({"model.sleep_ms=25", "training.mode=" + mode,
                                       "training.epochs=" + std::to_string(kPasses), "job.lease_timeout=4"});
  }
  Words sync() const { return job("slow", "sync") + set({"training.grads_to_wait=2"}); }
  // Undisturbed, in one process.
  std::string expected_rows() { return folder_.train(sync() + set({"model.sleep_ms=0"})); }

  static std::string name(const Process& process) { return "(pid " + std::to_string(process.pid()) + " on "; }

  void expect_the_end(Cluster& cluster) {
    EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
    EXPECT_EQ(folder_.report()["examples"], kPasses * JobFolder::kRecords);
    EXPECT_EQ(folder_.report()["workers_lost"], 0) << cluster.master->output();
    EXPECT_TRUE(cluster.master->has_printed(name(*cluster.workers[0]))) << cluster.master->output();
    EXPECT_TRUE(cluster.master->has_printed("is leased to others, too")) << cluster.master->output();
    EXPECT_NE(cluster.workers[0]->wait(20), -1) << "the process that hangs ends with the job";
  }

  JobFolder folder_;
};

TEST_F(Late, ForwardThatNeverReturnsInOneOfTwoWorkersChangesNoBitOfASyncJob) {
  const std::string expected = expected_rows();
  Cluster cluster(folder_, 2, 2, sync());
  ASSERT_TRUE(folder_.hold(*cluster.workers[0]));
  expect_the_end(cluster);
  EXPECT_EQ(folder_.read("rows"), expected);
}

TEST_F(Late, StoppedWorkerChangesNoBitOfASyncJob) {
  const std::string expected = expected_rows();
  Cluster cluster(folder_, 2, 2, sync() + set({"job.heartbeat_timeout=4"}));
  ASSERT_TRUE(folder_.hold(*cluster.workers[0]));
  cluster.workers[0]->stop();
  folder_.release();
  EXPECT_EQ(cluster.master->wait(), 0) << cluster.master->output();
  EXPECT_EQ(folder_.report()["examples"], kPasses * JobFolder::kRecords);
  EXPECT_EQ(folder_.read("rows"), expected);
  cluster.workers[0]->signal(SIGCONT);
  EXPECT_NE(cluster.workers[0]->wait(20), -1);
}

TEST_F(Late, WorkerThatGoesOnWorksOn) {
  const std::string expected = expected_rows();
  Cluster cluster(folder_, 1, 2, sync() + set({"model.sleep_ms=60"}));
  ASSERT_TRUE(folder_.hold(*cluster.workers[0]));
  ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed("is leased to others, too"); }))
      << cluster.master->output();
  folder_.release();
  ASSERT_TRUE(wait_until([&] { return cluster.master->has_printed(" goes on"); }))
      << cluster.master->output();
  cluster.expect_success();
  EXPECT_EQ(folder_.report()["workers_lost"], 0);
  EXPECT_EQ(folder_.report()["examples"], kPasses * JobFolder::kRecords);
  EXPECT_EQ(folder_.read("rows"), expected);
}

// The probe's rows count the records that held their key.
TEST_F(Late, AsyncAndBoundedJobsApplyEveryRecordOnceWithoutTheWorkerThatHangs) {
  for (const Words& mode :
       {job("count", "async"), job("count", "bounded") + set({"training.staleness_bound=1"})}) {
    folder_.release();
    Cluster cluster(
        folder_, 2, 2,
        mode + set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.reduction=sum"}));
    ASSERT_TRUE(folder_.hold(*cluster.workers[0]));
    expect_the_end(cluster);
    std::map<std::string, double> sums;
    for (const auto& [key, row] : parse_dump(folder_.read("rows")))
      if (key.starts_with("count/")) sums[key.substr(0, key.find('\t'))] += row.at(0);
    EXPECT_EQ(sums.at("count/color"), kPasses * JobFolder::kRecords);
    EXPECT_EQ(sums.at("count/size"), kPasses * JobFolder::kRecords);
  }
}

TEST_F(Late, ForwardThatNeverReturnsInTheOnlyWorkerEndsTheJobAndIsNamed) {
  Cluster cluster(folder_, 1, 1, sync());
  ASSERT_TRUE(folder_.hold(*cluster.workers[0]));
  EXPECT_EQ(cluster.master->wait(), 1) << cluster.master->output();
  const std::string named = "worker 0 " + name(*cluster.workers[0]);
  EXPECT_TRUE(cluster.master->has_printed(named)) << cluster.master->output();
  EXPECT_TRUE(cluster.master->has_printed("no other worker can compute what is left"))
      << cluster.master->output();
  EXPECT_EQ(cluster.workers[0]->wait(20), 1) << cluster.workers[0]->output();
  EXPECT_TRUE(cluster.workers[0]->has_printed(named)) << cluster.workers[0]->output();
}

TEST_F(Late, JobOfOneProcessWhoseOnlyForwardNeverReturnsEnds) {
  const auto train = folder_.start(Words{"train", folder_.job()} + sync() + set({"training.workers=1"}));
  ASSERT_TRUE(folder_.hold(*train)) << train->output();
  EXPECT_EQ(train->wait(), 1) << train->output();
  EXPECT_TRUE(train->has_printed("worker 0 " + name(*train))) << train->output();
  EXPECT_TRUE(train->has_printed("no other worker can compute what is left")) << train->output();
}

}  // namespace
}  // namespace embers::testing_support
