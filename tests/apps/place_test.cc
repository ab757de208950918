// Where a master listens that was not told, and where members look for it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "actors/transport/addresses/local_address.h"
#include "apps/process/joining.h"

namespace embers {
namespace {

class Place : public testing::Test {
 protected:
  void SetUp() override { in_slurm("", "", ""); }
  void TearDown() override { in_slurm("", "", ""); }

  static void in_slurm(const char* job, const char* node, const char* submitted) {
    set("SLURM_JOB_ID", job);
    set("SLURMD_NODENAME", node);
    set("SLURM_SUBMIT_DIR", submitted);
    set("EMBERS_MASTER", "");
    set("EMBERS_JOB_DIR", "");
  }
  static void set(const char* name, const char* value) {
    *value == '\0' ? unsetenv(name) : setenv(name, value, 1);
  }
  static MasterOptions untold() {
    MasterOptions options;
    options.listen.clear();
    return options;
  }
};
using Texts = std::vector<std::string>;

TEST_F(Place, OfAMasterIsTheLoopback) {
  const MasterOptions options = with_place(untold());
  EXPECT_EQ(options.listen, Texts{"127.0.0.1:7700"});
  EXPECT_EQ(options.access.job_dir, "");
}

TEST_F(Place, OfAMasterThatIsToldIsWhatItIsTold) {
  in_slurm("7", "no-such-node.invalid", "/home/me");
  MasterOptions options = untold();
  options.listen = {"127.0.0.1:1234"};
  EXPECT_EQ(with_place(options).listen, Texts{"127.0.0.1:1234"});
  EXPECT_EQ(with_place(options).access.job_dir, "");
}

TEST_F(Place, InASlurmJobIsTheNodeAndTheDirectoryOfTheJob) {
  in_slurm("7", "no-such-node.invalid", "/home/me");
  EXPECT_EQ(with_place(untold()).listen, Texts{"0.0.0.0:0"});  // the name leads nowhere
  EXPECT_EQ(with_place(untold()).access.job_dir, "/home/me/embers-7");
  in_slurm("7", "localhost", "/home/me");  // which other nodes would take for themselves
  EXPECT_EQ(with_place(untold()).listen, Texts{"0.0.0.0:0"});
  const std::string here = local_address_towards("192.0.2.1", "9");
  if (here.starts_with("127.")) return;  // this host has no network
  in_slurm("7", here.c_str(), "/home/me");
  EXPECT_EQ(with_place(untold()).listen, Texts{here + ":0"});
}

TEST_F(Place, InASlurmJobMayHaveAnotherDirectory) {
  in_slurm("7", "no-such-node.invalid", "/home/me");
  set("EMBERS_JOB_DIR", "/shared/job");
  EXPECT_EQ(with_place(untold()).access.job_dir, "/shared/job");
  MasterOptions options = untold();
  options.access.job_dir = "/other";
  EXPECT_EQ(with_place(options).access.job_dir, "/other");
}

TEST_F(Place, OfTheMasterIsLookedForInTheEnvironmentBeforeSlurmSaysIt) {
  in_slurm("7", "node1", "/home/me");
  EXPECT_EQ(with_environment({}).job_dir, "/home/me/embers-7");
  EXPECT_EQ(with_environment({.master = "node2:7700"}).job_dir, "");
  set("EMBERS_JOB_DIR", "/shared/job");
  EXPECT_EQ(with_environment({}).job_dir, "/shared/job");
  set("EMBERS_JOB_DIR", "");
  set("EMBERS_MASTER", "node2:7700");
  EXPECT_EQ(with_environment({}).master, "node2:7700");
  EXPECT_EQ(with_environment({}).job_dir, "");
}

}  // namespace
}  // namespace embers
