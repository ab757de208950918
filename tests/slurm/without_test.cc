// What users are told where there is no Slurm, or where they ask for what there is not.
#include "tests/integration/jobs.h"
#include "tests/support/pretended_slurm.h"

namespace embers::testing_support {
namespace {

void expect_refused(JobFolder& folder, const Words& words, const std::string& why) {
  EXPECT_EQ(folder.run(Words{"launch", folder.job(), "--job-dir", folder.path("job")} + words), 2);
  EXPECT_NE(folder.output().find(why), std::string::npos) << folder.output();
}

TEST(LaunchWithoutSlurm, SaysThatThereIsNoSbatch) {
  JobFolder folder;
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.path("").c_str(), 1);
  expect_refused(folder, {"--scheduler", "slurm"}, "there is no sbatch in PATH");
  setenv("PATH", path.c_str(), 1);
}

TEST(LaunchWithoutSlurm, KnowsItsSchedulers) {
  JobFolder folder;
  expect_refused(folder, {"--scheduler", "pbs"}, "unknown scheduler 'pbs'; known: slurm");
  expect_refused(folder, {"--partition", "main"}, "--partition requires --scheduler");
  expect_refused(folder, {"--scheduler", "slurm", "--hosts", "a"}, "Slurm chooses the hosts");
}

TEST(LaunchWithoutSlurm, TakesOnlyOptionsForOptions) {
  JobFolder folder;
  expect_refused(folder, {"--scheduler", "slurm", "--sbatch", "exclusive"}, "'exclusive' is not an option");
}

TEST(LaunchWithoutSlurm, ARefusedJobLeavesNoDirectoryBehind) {
  JobFolder folder;
  const PretendedSlurm slurm(folder);
  slurm.command("sbatch", "echo the queue is closed >&2; exit 1");
  std::filesystem::create_directory(folder.path("here"));
  Process shell({"/bin/sh", "-c",
                 "cd " + folder.path("here") + " && exec " + path_of(EMBERS_COMMAND) + " launch " +
                     folder.job() + " --scheduler slurm"},
                folder.path("log"));
  EXPECT_EQ(shell.wait(), 2) << shell.output();
  EXPECT_TRUE(shell.has_printed("Slurm refuses the job: the queue is closed")) << shell.output();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("here")));
}

// As when the host that waits was asleep for longer than Slurm remembers.
TEST(LaunchWithoutSlurm, WaitingEndsWithAJobThatSlurmHasForgotten) {
  JobFolder folder;
  const PretendedSlurm slurm(folder);
  slurm.command("sbatch", "echo 7");
  slurm.command("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  EXPECT_EQ(
      folder.run({"launch", folder.job(), "--scheduler", "slurm", "--wait", "--job-dir", folder.path("job")}),
      1);
  EXPECT_NE(folder.output().find("does not know of job 7 any more"), std::string::npos) << folder.output();
}

TEST(LaunchWithoutSlurm, AJobInTheQueueHasItsDirectoryToItself) {
  JobFolder folder;
  const PretendedSlurm slurm(folder);
  slurm.command("sbatch", "echo 7");
  slurm.command("squeue", "[ \"$2\" = --jobs=7 ] && echo PENDING");
  const Words launch{"launch", folder.job(), "--scheduler", "slurm", "--job-dir", folder.path("job")};
  EXPECT_EQ(folder.run(launch), 0) << folder.output();
  EXPECT_EQ(folder.run(launch), 2);
  EXPECT_NE(folder.output().find("job 7 of Slurm (PENDING) uses job directory"), std::string::npos)
      << folder.output();
  slurm.command("squeue", "true");  // it has ended
  EXPECT_EQ(folder.run(launch), 0) << folder.output();
}

TEST(LaunchWithoutSlurm, WaitingEndsWithAJobThatMadeRoomForGood) {
  JobFolder folder;
  const PretendedSlurm slurm(folder);
  slurm.command("sbatch", "echo 7");
  slurm.command("scontrol",
                "echo 'JobId=7 JobName=small Requeue=0 Restarts=0 JobState=PREEMPTED ExitCode=0:15'");
  EXPECT_EQ(
      folder.run({"launch", folder.job(), "--scheduler", "slurm", "--wait", "--job-dir", folder.path("job")}),
      1);
  EXPECT_NE(folder.output().find("job 7 ended: PREEMPTED"), std::string::npos) << folder.output();
}

TEST(LaunchWithoutSlurm, ShowsWhatItWouldSubmit) {
  JobFolder folder;
  EXPECT_EQ(folder.run({"launch", folder.job(), "--scheduler", "slurm", "--dry-run", "--workers", "4",
                        "--cpus-per-worker", "2"}),
            0);
  EXPECT_NE(folder.output().find("sbatch --parsable --job-name=small --ntasks=5 --cpus-per-task=2"),
            std::string::npos)
      << folder.output();
}

}  // namespace
}  // namespace embers::testing_support
