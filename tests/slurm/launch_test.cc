// embers launch --scheduler slurm: one allocation, scaled within it and beyond it.
#include "tests/slurm/slurm_job.h"

namespace embers::testing_support {
namespace {

class Launched : public SlurmJob {
 protected:
  // Submits the job, as a user does.
  std::string launch(const Words& job, const Words& words = {}) {
    unsetenv("EMBERS_JOB_DIR");
    EXPECT_EQ(
        folder_.run(Words{"launch"} + job + Words{"--scheduler", "slurm", "--job-dir", job_dir()} + words), 0)
        << folder_.output();
    const std::string said = folder_.output();
    const size_t at = said.find("job ");
    id_ = at == std::string::npos ? "" : said.substr(at + 4, said.find(' ', at + 4) - at - 4);
    return id_;
  }
  std::string log() const override { return read_file(job_dir() + "/logs/slurm-" + id_ + ".log"); }
  bool says(const std::string& text, double seconds = 60) const {
    return wait_until([&] { return log().find(text) != std::string::npos; }, seconds);
  }

  nlohmann::json status() {
    folder_.run({"status", "--json", "--job-dir", job_dir()});
    return nlohmann::json::parse(folder_.output(), nullptr, false);
  }
  bool has_workers(uint32_t wanted, uint32_t joined) {
    nlohmann::json last;
    const bool came = wait_until(
        [&] {
          last = status();
          return last.is_object() && last["workers"]["wanted"] == wanted &&
                 last["workers"]["joined"] == joined;
        },
        60);
    EXPECT_TRUE(came) << last;
    return came;
  }
  void scale(uint32_t workers) {
    EXPECT_EQ(folder_.run({"scale", "--job-dir", job_dir(), "--workers", std::to_string(workers)}), 0)
        << folder_.output();
    EXPECT_TRUE(has_workers(workers, workers));
    cluster_->show("with " + std::to_string(workers) + " workers");
  }

  std::string id_;
};

TEST_F(Launched, CensusIsScaledLosesAStepIsQueuedAgainAndIsAsGoodAsAPlainRun) {
  SKIP_WITHOUT_CENSUS();
  // Of as much learning as examples/census.toml has, but of more and smaller minibatches.
  const Words census =
      Words{path_of(EMBERS_CENSUS_JOB)} + set({"data.dir=" + census_dir(), "training.epochs=24",
                                               "training.batch_size=32", "optimizer.learning_rate=0.0001"});
  const std::string id =
      launch(census + Words{"--output", folder_.path("model"), "--report", folder_.path("out.json")},
             {"--workers", "1", "--room", "3"});
  ASSERT_TRUE(says(" examples  "));
  scale(3);
  const std::string step = cluster_->step(id, "w1");
  ASSERT_NE(step, "");
  cluster_->run({"scancel", "--signal=KILL", step.substr(0, step.find(' '))});
  ASSERT_TRUE(says("lost worker"));
  ASSERT_TRUE(has_workers(3, 3));
  scale(1);
  cluster_->run({"scontrol", "requeue", id});
  ASSERT_TRUE(says("going on from " + folder_.path("model")));
  EXPECT_EQ(cluster_->wait_for_end(id, 200), "COMPLETED");
  cluster_->show_accounts(id);

  const nlohmann::json first = folder_.report("out.json.0"), last = folder_.report();
  EXPECT_EQ(first["examples"].get<int>() + last["examples"].get<int>(), 24 * 32561);
  EXPECT_GE(first["workers_lost"], 1);
  ASSERT_EQ(folder_.run(Words{"train"} + census + Words{"--report", folder_.path("plain.json")}), 0)
      << folder_.output();
  const double plain = folder_.report("plain.json")["accuracy"];
  EXPECT_GE(plain, 0.868);
  EXPECT_NEAR(last["accuracy"].get<double>(), plain, 0.004);
}

TEST_F(Launched, BeyondItsAllocationWorkersRunInFurtherJobsOfTheSameName) {
  const std::string id =
      launch(slow() + set({"training.epochs=1000"}) + Words{"--workers", "1"}, {"--nodes", "1"});
  ASSERT_TRUE(says(" examples  "));
  scale(3);
  const std::string jobs = cluster_->run({"squeue", "--noheader", "--format=%i %j %k"});
  EXPECT_EQ(std::count(jobs.begin(), jobs.end(), '\n'), 3) << jobs;
  EXPECT_NE(jobs.find("small embers " + id), std::string::npos) << jobs;
  scale(1);
  ASSERT_EQ(folder_.run({"stop", "--no-save", "--job-dir", job_dir()}), 0) << folder_.output();
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  EXPECT_EQ(nlohmann::json::parse(read_file(job_dir() + "/report.json"))["workers_lost"], 0);
  EXPECT_TRUE(wait_until([&] { return cluster_->run({"squeue", "--noheader"}).empty(); }, 30));
  cluster_->show_accounts(id + ",2,3");
}

// Slurm takes its time to notice that a node has failed; the master does not.
TEST_F(Launched, AWorkerOfANodeThatFailsIsStartedOnAnother) {
  const std::string id = launch(slow() + set({"training.epochs=70"}) + Words{"--workers", "2"},
                                {"--nodes", "3", "--sbatch=--exclusive"});
  ASSERT_TRUE(says(" examples  "));
  const auto node_of = [&](const std::string& name) {
    const std::string step = cluster_->step(id, name);
    return step.substr(step.find(' ') + 1);
  };
  const std::string node = node_of("w0");
  ASSERT_NE(node, node_of("s0"));
  ASSERT_NE(node, node_of("master"));
  cluster_->crash(node);
  ASSERT_TRUE(says("lost worker", 30));
  ASSERT_TRUE(has_workers(2, 2));
  EXPECT_TRUE(says("the master has lost w0: ending its process", 0)) << log();
  cluster_->show("without " + node);
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED");
  cluster_->show_accounts(id);
  const nlohmann::json report = nlohmann::json::parse(read_file(job_dir() + "/report.json"));
  EXPECT_EQ(report["examples"], 70 * JobFolder::kRecords);
  EXPECT_EQ(report["workers_lost"], 1);
}

// In an allocation that outlives the launcher, nothing else would end the steps.
TEST_F(Launched, AnAllocationIsEmptyAfterItsLauncherWasKilled) {
  const std::string launched =
      path_of(EMBERS_COMMAND) + " launch " + folder_.job() +
      " --scheduler slurm --shards 2 --workers 2 --job-dir " + job_dir() +
      " --set training.epochs=1000000 --set model.library=" + path_of(EMBERS_PROBE_MODEL) +
      " --set model.name=slow --set model.sleep_ms=20";
  unsetenv("EMBERS_JOB_DIR");
  Process salloc({"/usr/bin/salloc", "--nodes=3", "--exclusive", "/bin/sh", "-c",
                  launched + " & echo $SLURM_JOB_ID $! > " + folder_.path("launcher") + "; sleep 1000"},
                 folder_.path("salloc.log"));
  ASSERT_TRUE(wait_until([&] { return salloc.has_printed(" examples  "); })) << salloc.output();
  std::istringstream ids(folder_.read("launcher"));
  pid_t launcher = 0;
  ids >> id_ >> launcher;
  const auto steps = [&] {
    std::string all = cluster_->run({"squeue", "--steps", "--noheader", "--job=" + id_, "--format=%i %j"});
    return std::count(all.begin(), all.end(), '\n') - (all.find("extern") != all.npos) -
           (all.find("interactive") != all.npos);
  };
  EXPECT_EQ(steps(), 5);
  ASSERT_GT(launcher, 0);
  ::kill(launcher, SIGKILL);
  EXPECT_TRUE(wait_until([&] { return steps() == 0; }, 60)) << steps() << " steps go on";
  EXPECT_EQ(cluster_->state(id_), "RUNNING") << "the allocation is the user's";
}

TEST_F(Launched, WaitsForTheEndAndReturnsTheJobsExitStatus) {
  EXPECT_EQ(folder_.run({"launch", folder_.job(), "--scheduler", "slurm", "--wait", "--job-dir", job_dir()}),
            0)
      << folder_.output();
  EXPECT_NE(folder_.output().find("examples in "), std::string::npos) << folder_.output();
  folder_.write("bad.csv", "this,is,no,record\n");
  EXPECT_EQ(
      folder_.run(Words{"launch", folder_.job(), "--scheduler", "slurm", "--wait", "--job-dir", job_dir()} +
                  set({"data.train=bad.csv"})),
      2)
      << folder_.output();
}

#ifdef EMBERS_PYTHON
// On three nodes, each with its own idea of where the job is.
TEST_F(Launched, PythonWorkersFindTheJobByThemselves) {
  folder_.write("first.toml",
                "[optimizer]\nname = \"sgd\"\nlearning_rate = 1.0\n[training]\nreduction = \"sum\"\n");
  folder_.write("train.py",
                "import numpy as np, embers\n"
                "with embers.connect() as job:\n"
                "    counts = job.table('count', dim=1, initializer='zeros')\n"
                "    for batch in job.minibatches(400, 10, epochs=2):\n"
                "        counts.push(batch.records, -np.ones_like(counts.lookup(batch.records)))\n"
                "    keys, rows = counts.export()\n"
                "    print('counted', len(keys), rows.min(), rows.max())\n");
  const std::string id =
      launch({folder_.path("first.toml")},
             {"--shards", "2", "--workers", "2", "--nodes", "3", "--sbatch=--exclusive", "--", "/usr/bin/env",
              "PYTHONPATH=" + path_of(EMBERS_PYTHON_PACKAGES), EMBERS_PYTHON, folder_.path("train.py")});
  EXPECT_EQ(cluster_->wait_for_end(id), "COMPLETED") << log();
  EXPECT_EQ(nlohmann::json::parse(read_file(job_dir() + "/report.json"))["examples"], 800) << log();
  std::string said;
  for (const auto& file : std::filesystem::directory_iterator(job_dir() + "/logs"))
    said += read_file(file.path());
  EXPECT_NE(said.find("counted 400 2.0 2.0"), std::string::npos) << said;
  cluster_->show_accounts(id);
}
#endif

TEST_F(Launched, SaysWhySlurmRefusesAJob) {
  EXPECT_EQ(folder_.run({"launch", folder_.job(), "--scheduler", "slurm", "--job-dir", job_dir(),
                         "--partition", "gold"}),
            2);
  EXPECT_NE(folder_.output().find("invalid partition specified: gold"), std::string::npos)
      << folder_.output();
}

}  // namespace
}  // namespace embers::testing_support
