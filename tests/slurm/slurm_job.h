#pragma once

#include <cmath>

#include "tests/integration/jobs.h"
#include "tests/support/slurm.h"

namespace embers::testing_support {

// A job in a Slurm cluster of three nodes, in which Slurm finds the program that was built here.
class SlurmJob : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_SLURM();
    cluster_.emplace(3);
    ASSERT_TRUE(cluster_->ready()) << cluster_->log();
    setenv("EMBERS", path_of(EMBERS_COMMAND).c_str(), 1);
    setenv("EMBERS_JOB_DIR", job_dir().c_str(), 1);
    setenv("EMBERS_WATCH_SECONDS", "2", 1);
  }
  void TearDown() override {
    if (HasFailure() && cluster_) {
      cluster_->show("at the failure");
      std::cout << log() << std::flush;
    }
    for (const char* name : {"EMBERS", "EMBERS_JOB_DIR", "EMBERS_WATCH_SECONDS", "EMBERS_WORKERS"})
      unsetenv(name);
  }

  std::string job_dir() const { return folder_.path("job"); }
  // What the batch script and its steps wrote.
  virtual std::string log() const { return folder_.read("batch.log"); }
  bool has_said(const std::string& text, int times = 1) const {
    const std::string all = log();
    size_t at = 0;
    for (int i = 0; i < times; ++i, ++at)
      if ((at = all.find(text, at)) == std::string::npos) return false;
    return true;
  }

  // Submits deploy/slurm/embers.sbatch. `job`: the job file and options of its master.
  std::string submit(const Words& job, const Words& words = {"--nodes=3", "--ntasks=4"}) const {
    return cluster_->submit(Words{"--output=" + folder_.path("batch.log")} + words +
                            Words{path_of(EMBERS_SBATCH)} + job);
  }
  // Half a minute, if nobody disturbs it.
  Words slow() const {
    return Words{folder_.job()} + folder_.probe("slow") + set({"model.sleep_ms=20", "training.epochs=20"});
  }
  bool is_training(int runs = 1) const {
    return wait_until([&] { return has_said("going on from", runs - 1) && has_said(" examples  ", runs); });
  }

  // Of the last run of a job, or of one before, as Slurm counts restarts.
  nlohmann::json report(int restart = -1) const {
    return nlohmann::json::parse(
        read_file(job_dir() + "/report.json" + (restart < 0 ? "" : "." + std::to_string(restart))));
  }

  JobFolder folder_;
  std::optional<SlurmCluster> cluster_;
};

}  // namespace embers::testing_support
