// A launcher in an allocation whose controller does not answer.
#include <csignal>

#include "base/host.h"
#include "tests/launch/launcher.h"
#include "tests/support/pretended_slurm.h"

namespace embers::testing_support {
namespace {

// This process is in an allocation of one node, this host, whose controller answers squeue while `path`
// exists.
class Allocation {
 public:
  explicit Allocation(const JobFolder& folder) : folder_(folder), commands_(folder) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
    // The first word of a step is its --job-name.
    commands_.command("srun", "echo $$ > " + folder.path("srun.\"${1#--job-name=}\"") +
                                  "; while [ \"${1#--}\" != \"$1\" ]; do shift; done; exec \"$@\"");
    commands_.command("scontrol", "case \"$2\" in hostnames) echo localhost;; esac");
    commands_.command("squeue", "echo asked >> " + folder.path("asked") + "; until [ -e " +
                                    folder.path("answers") + " ]; do sleep 0.05; done; echo localhost");
  }
  ~Allocation() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }
  void command(const std::string& name, const std::string& script) const { commands_.command(name, script); }
  // The srun of the member with this label.
  pid_t srun(const std::string& label) const { return std::stoi(folder_.read("srun." + label)); }
  void answer(bool answers) const {
    if (answers)
      folder_.write("answers", "");
    else
      std::filesystem::remove(folder_.path("answers"));
  }
  // Whether squeue has been called so often, soon.
  bool is_asked(size_t times) const {
    return wait_until([&] {
      const std::string asked = folder_.read("asked");
      return std::count(asked.begin(), asked.end(), '\n') == static_cast<std::ptrdiff_t>(times);
    });
  }

 private:
  const JobFolder& folder_;
  const PretendedSlurm commands_;
  const std::map<std::string, std::string> variables_{{"SLURM_JOB_ID", "7"},
                                                      {"SLURM_JOB_NAME", "small"},
                                                      {"SLURM_SUBMIT_DIR", folder_.path("")},
                                                      {"SLURM_JOB_NODELIST", "localhost"},
                                                      {"SLURM_JOB_CPUS_PER_NODE", "8"},
                                                      {"SLURMD_NODENAME", "localhost"}};
};

TEST(LaunchInSlurm, FollowsMembersAndSignalsWhileTheControllerDoesNotAnswer) {
  JobFolder folder;
  const Allocation allocation(folder);
  Launcher launcher(folder,
                    Words{"--scheduler", "slurm", "--shards", "1", "--workers", "3"} + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  const auto kill_worker = [&](const std::string& label) { ::kill(launcher.pid(label), SIGKILL); };
  // Another one ends while the controller is asked which nodes are left.
  kill_worker("w0");
  ASSERT_TRUE(allocation.is_asked(1)) << launcher.output();
  kill_worker("w1");
  EXPECT_TRUE(wait_until([&] { return launcher.process().has_printed("w1 ended: "); })) << launcher.output();
  allocation.answer(true);
  EXPECT_TRUE(launcher.becomes([](const Status& s) { return Launcher::working(s) == 3; }))
      << launcher.output();
  allocation.answer(false);
  kill_worker("w2");
  EXPECT_TRUE(wait_until([&] { return launcher.process().has_printed("w2 ended: "); })) << launcher.output();
  launcher.process().signal(SIGINT);
  EXPECT_EQ(launcher.process().wait(60), 0) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

TEST(LaunchInSlurm, EndsWithoutAScancelThatHangsAndSaysWhatMayStillRun) {
  JobFolder folder;
  const Allocation allocation(folder);
  Launcher launcher(folder,
                    Words{"--scheduler", "slurm", "--shards", "1", "--workers", "1"} + endless(folder));
  ASSERT_TRUE(launcher.trains()) << launcher.output();
  const pid_t master = allocation.srun("master");
  allocation.command("scontrol",
                     "echo StepId=7.0 SrunHost:Pid=" + host_name() + ":" + std::to_string(master));
  allocation.command("scancel", "exec sleep 1000");
  ::kill(master, SIGSTOP);  // so that it does not end the job after the first signal
  launcher.process().signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return launcher.process().has_printed("a second one ends everything"); }))
      << launcher.output();
  launcher.process().signal(SIGINT);
  EXPECT_EQ(launcher.process().wait(60), 128 + SIGINT) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("job 7 may still run: 7.0.")) << launcher.output();
  EXPECT_TRUE(launcher.process().has_printed("'scancel --signal=KILL 7.0'")) << launcher.output();
  EXPECT_TRUE(launcher.leaves_nothing());
}

}  // namespace
}  // namespace embers::testing_support
