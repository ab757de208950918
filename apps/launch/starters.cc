#include "apps/launch/starters.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "apps/launch/processes/host_starter.h"
#include "apps/launch/processes/ssh_starter.h"
#include "apps/launch/slurm/starter.h"

namespace embers::launch {

std::unique_ptr<Starter> starter_for(const Plan& plan, const std::function<std::string()>& secret) {
  const LaunchOptions& o = plan.options;
  if (o.scheduler.slurm) return std::make_unique<SlurmStarter>(plan.program, slurm_allocation(), o.scheduler);
  if (o.hosts.empty()) return std::make_unique<HostStarter>(plan.program);
  SshOptions ssh;
  ssh.hosts = o.hosts;
  std::istringstream words(o.ssh);
  ssh.ssh.clear();
  for (std::string word; words >> word;) ssh.ssh.push_back(word);
  ssh.program = o.remote_program;
  ssh.directory = std::filesystem::current_path().string();
  ssh.secret = secret();
  ssh.shards = plan.shards;
  return std::make_unique<SshStarter>(plan.program, ssh);
}

int dry_run(Plan plan) {
  const std::string& job_dir = plan.options.master.access.job_dir;
  plan.job_dir = job_dir.empty() ? "JOB_DIR" : std::filesystem::absolute(job_dir).string();
  const auto starter = starter_for(plan, [] { return "SECRET"; });
  std::vector<Member> members{{Kind::kMaster}};
  for (uint32_t i = 0; i < plan.shards; ++i) members.push_back({Kind::kShard, i});
  for (uint32_t i = 0; i < plan.workers; ++i) members.push_back({Kind::kWorker, i});
  for (const Member& member : members) {
    const Order order = order_for(plan, member, "MASTER_ADDRESS");
    fmt::print("{}\n", command_line(order, starter->words(order)));
  }
  return 0;
}

}  // namespace embers::launch
