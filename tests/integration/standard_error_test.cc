// Jobs whose standard error goes to somebody who reads slowly, not at all, or no longer.
#include <sys/stat.h>

#include <filesystem>

#include "tests/integration/jobs.h"
#include "tests/support/slow_reader.h"

namespace embers::testing_support {
namespace {

const Words kSameBits = set({"training.mode=sync"});

std::unique_ptr<Process> start(const JobFolder& folder, const Words& words, const SlowReader& standard_error,
                               const std::string& log = "out") {
  return std::make_unique<Process>(Words{path_of(EMBERS_COMMAND)} + words, folder.path(log),
                                   standard_error.writer());
}

Words train(const JobFolder& folder) {
  return Words{"train",    folder.job(),           "--dump-rows", folder.path("rows"),
               "--report", folder.path("out.json")} +
         kSameBits;
}

TEST(StandardError, ThatNobodyReadsHoldsNoJobUp) {
  for (const auto kind : {SlowReader::Kind::kPipe, SlowReader::Kind::kTerminal}) {
    JobFolder folder;
    const std::string rows = folder.train(kSameBits);
    std::filesystem::remove(folder.path("rows"));
    std::filesystem::remove(folder.path("out.json"));
    SlowReader nobody(kind);
    nobody.fill();
    const auto job = start(folder, train(folder), nobody);
    ASSERT_EQ(job->wait(), 0) << job->output();
    EXPECT_TRUE(nobody.is_full());
    EXPECT_EQ(folder.read("rows"), rows);
    EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
    EXPECT_TRUE(job->has_printed("2000 examples in")) << job->output();
  }
}

TEST(StandardError, OfAllProcessesOfAJobMayBeAPipeThatNobodyReads) {
  JobFolder folder;
  const std::string rows = folder.train(kSameBits);
  SlowReader nobody;
  nobody.fill();
  const std::string address = "unix:" + folder.path("master.sock");
  std::vector<std::unique_ptr<Process>> processes;
  const auto add = [&](const Words& words) {
    processes.push_back(start(folder, words, nobody, "out." + std::to_string(processes.size())));
  };
  add(Words{"master", folder.job(), "--listen", address, "--shards", "2", "--workers", "2", "--report",
            folder.path("out.json"), "--dump-rows", folder.path("cluster_rows")} +
      kSameBits);
  for (const std::string command : {"shard", "shard", "worker", "worker"})
    add({command, "--master", address});
  for (const auto& process : processes) ASSERT_EQ(process->wait(), 0) << process->output();
  EXPECT_TRUE(nobody.is_full());
  EXPECT_EQ(parse_dump(folder.read("cluster_rows")), parse_dump(rows));
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
}

// As a stopped `less` does, or a terminal after Ctrl-S.
TEST(StandardError, GoesOnWhenItsSuspendedReaderComesBack) {
  JobFolder folder;
  const std::string fifo = folder.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Process cat({"/bin/cat", fifo}, folder.path("cat"));
  SlowReader pipe(fifo);
  cat.stop();
  pipe.fill();
  const auto job = start(folder,
                         train(folder) + folder.probe("slow") + set({"training.epochs=4"}) +
                             Words{"--output", folder.path("model"), "--save-every", "1"},
                         pipe);
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(folder.path("model")); }));
  EXPECT_EQ(job->wait(0), -1) << "it should still be training";
  pipe.close_writer();
  cat.signal(SIGCONT);
  EXPECT_EQ(job->wait(), 0) << job->output();
  EXPECT_EQ(cat.wait(), 0);
  size_t at = 0;
  for (const std::string part : {"job 'small': 1000 training records", "worker 0 (pid",
                                 "epoch 1: ", "epoch 2: ", "epoch 4: ", "saved"}) {
    at = cat.output().find(part, at);
    EXPECT_NE(at, std::string::npos) << part << " is missing in\n" << cat.output();
  }
}

TEST(StandardError, ThatIsClosedHarmsNoJobAndKeepsItsExitStatus) {
  JobFolder folder;
  SlowReader pipe;
  pipe.close_reader();
  EXPECT_EQ(start(folder, train(folder), pipe)->wait(), 0);
  EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  EXPECT_EQ(start(folder, {"train", folder.path("no such job")}, pipe)->wait(), 2);
  EXPECT_EQ(start(folder, train(folder) + folder.probe("throws"), pipe)->wait(), 2);
  EXPECT_EQ(
      start(folder, {"worker", "--master", "unix:" + folder.path("none"), "--connect-timeout", "0"}, pipe)
          ->wait(),
      2);
}

// Its reader comes when the job has failed.
TEST(StandardError, EndsWithTheErrorThatEndsTheProcess) {
  JobFolder folder;
  SlowReader pipe;
  pipe.fill();
  const auto job = start(folder, train(folder) + folder.probe("throws"), pipe);
  pipe.close_writer();
  const std::string text = pipe.read_to_the_end();
  EXPECT_EQ(job->wait(), 2);
  const size_t error = text.find("embers: error: model 'throws': forward: no way forward");
  EXPECT_NE(error, std::string::npos) << text;
  EXPECT_LT(text.find("worker 0 (pid"), error) << text;
  EXPECT_EQ(text.back(), '\n') << text;
}

TEST(StandardError, ComesBeforeTheResultsInACommonFile) {
  JobFolder folder;
  ASSERT_EQ(folder.run(train(folder)), 0) << folder.output();
  EXPECT_LT(folder.output().find("epoch 2: "), folder.output().find("2000 examples in")) << folder.output();
}

// As with `2>&1 | less`: the results wait for their reader, and nothing else does.
TEST(StandardError, WithTheResultsInAFullPipeDelaysNeitherTheReportNorASignal) {
  for (const bool one_process : {true, false}) {
    JobFolder folder;
    SlowReader pipe;
    pipe.fill();
    const std::string address = "unix:" + folder.path("master.sock");
    const Words master{"master", folder.job(), "--listen", address, "--report", folder.path("out.json")};
    Process job(Words{"/bin/sh", "-c", "exec \"$@\" >&2", "sh", path_of(EMBERS_COMMAND)} +
                    (one_process ? train(folder) : master),
                folder.path("out"), pipe.writer());
    std::vector<std::unique_ptr<Process>> others;
    if (!one_process)
      for (const std::string command : {"shard", "worker"})
        others.push_back(folder.start({command, "--master", address}));
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(folder.path("out.json")); }));
    for (const auto& process : others) EXPECT_EQ(process->wait(), 0) << process->output();
    EXPECT_EQ(job.wait(0), -1) << "its results are still to be read";
    job.signal(SIGINT);
    EXPECT_EQ(job.wait(), 128 + SIGINT);
    EXPECT_EQ(folder.report()["examples"], 2 * JobFolder::kRecords);
  }
}

}  // namespace
}  // namespace embers::testing_support
