#include "apps/launch/slurm/starter.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <utility>

#include "apps/launch/members/quoted.h"
#include "apps/launch/slurm/commands/commands.h"
#include "apps/launch/slurm/commands/steps.h"
#include "base/errors.h"

namespace embers::launch {
namespace {

// Slurm's commands themselves give up on a controller after some tens of seconds.
constexpr auto kMostOfALook = std::chrono::seconds(15);

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// For those who go on without the steps. Says what may be left.
template <class Cancel>
void cancel_or_say(const Cancel& cancel) {
  try {
    cancel();
  } catch (const Error& e) {
    spdlog::warn("{}", e.what());
  }
}

}  // namespace

SlurmAllocation slurm_allocation() {
  const auto job = slurm_job();
  if (!job) fail(ErrorCode::kInvalid, "this process is not in a Slurm job (SLURM_JOB_ID)");
  SlurmAllocation allocation{*job, variable("SLURM_JOB_NAME"), {}};
  const std::vector<uint32_t> cores = parse_cpus_per_node(variable("SLURM_JOB_CPUS_PER_NODE"));
  const auto nodes = run_slurm({"scontrol", "show", "hostnames", variable("SLURM_JOB_NODELIST")}).lines();
  if (nodes.size() != cores.size())
    fail(ErrorCode::kInvalid, "Slurm says that job {} has {} nodes (SLURM_JOB_NODELIST) and the cores of {}",
         job->id, nodes.size(), cores.size());
  for (size_t i = 0; i < nodes.size(); ++i) allocation.nodes.push_back({nodes[i], cores[i]});
  return allocation;
}

Words step_words(const Order& order, const std::string& node, uint32_t cores) {
  // Placed here, so that no step waits for another one, and none is ended because another one was.
  Words words{"srun",
              "--job-name=" + order.member.label(),
              "--nodes=1",
              "--ntasks=1",
              fmt::format("--cpus-per-task={}", cores),
              "--nodelist=" + node,
              "--overlap",
              "--no-kill",
              "--unbuffered",
              "--export=ALL"};
  words.insert(words.end(), order.words.begin(), order.words.end());
  return words;
}

Words job_words(const Order& order, const SlurmAllocation& allocation, const SchedulerOptions& options,
                const std::string& mark) {
  Words words{"sbatch",     "--wait",
              "--parsable", "--job-name=" + allocation.name,
              "--ntasks=1", fmt::format("--cpus-per-task={}", options.cpus_per_worker)};
  const Words more = place_words_of_one(options);
  words.insert(words.end(), more.begin(), more.end());
  // Its number says to the job whose worker it is, which ends it.
  words.insert(words.end(),
               {"--comment=" + further_comment(allocation.job.id, mark), "--no-requeue", "--open-mode=append",
                "--output=" + as_pattern(order.log), "--export=ALL", "--wrap=exec " + quoted(order.words)});
  return words;
}

SlurmStarter::SlurmStarter(const std::string& embers, SlurmAllocation allocation, SchedulerOptions options)
    : HostStarter(embers, allocation.job.id),
      allocation_(std::move(allocation)),
      options_(std::move(options)),
      places_(allocation_.nodes, options_.cpus_per_worker) {}

// The node is chosen when it is started.
Words SlurmStarter::words(const Order& order) const {
  return step_words(order, "NODE", order.member.kind == Kind::kWorker ? options_.cpus_per_worker : 1);
}

void SlurmStarter::start(const Order& order) {
  if (look_again_ && !looking_) look();
  if (looking_)
    waiting_.push_back(order);
  else
    start_at_place(order);
}

void SlurmStarter::start_at_place(const Order& order) {
  const auto node = places_.take(order.member);
  if (node) nodes_[order.member.label()] = *node;
  has_further_ |= !node;
  try {
    HostStarter::start(order);
  } catch (...) {
    places_.give_back(order.member);
    nodes_.erase(order.member.label());
    throw;
  }
}

void SlurmStarter::look() {
  look_again_ = names_ = false;
  ask_slurm({"squeue", "--noheader", "--job=" + allocation_.job.id, "--format=%N"});
}

void SlurmStarter::ask_slurm(const Words& words) {
  try {
    looking_.emplace(words, kMostOfALook);
  } catch (const Error&) {  // no more processes or files just now
    look_again_ = true;
  }
}

// Whether nothing is asked any more. Where there was no answer, nodes are taken for those that were there
// before, until the next look.
bool SlurmStarter::has_looked() {
  if (!looking_) return true;
  const auto answer = looking_->answer();
  if (!answer) return false;
  looking_.reset();
  if (answer->status != 0) {
    look_again_ = true;
  } else if (names_) {
    places_.keep_only(answer->lines());
  } else {
    names_ = true;
    ask_slurm({"scontrol", "show", "hostnames", answer->first_line()});
  }
  return !looking_;
}

ProcessGroups::Child SlurmStarter::child(const Order& order) const {
  ProcessGroups::Child child = HostStarter::child(order);
  const auto node = nodes_.find(order.member.label());
  const bool worker = order.member.kind == Kind::kWorker;
  child.words = node == nodes_.end() ? job_words(order, allocation_, options_, groups().mark())
                                     : step_words(order, node->second, worker ? options_.cpus_per_worker : 1);
  return child;
}

std::vector<Ended> SlurmStarter::ended() {
  std::vector<Ended> all = HostStarter::ended();
  for (const Ended& ended : all) {
    places_.give_back(ended.member);
    nodes_.erase(ended.member.label());
    look_again_ = true;
  }
  if (!has_looked()) return all;
  for (const Order& order : std::exchange(waiting_, {})) {
    try {
      start_at_place(order);
    } catch (const Error& e) {
      all.push_back({order.member, {127, e.what()}});
    }
  }
  return all;
}

SlurmStarter::~SlurmStarter() {
  std::set<pid_t> sruns;
  for (const auto& [label, pid] : groups().leaders()) sruns.insert(pid);
  cancel_or_say([&] { cancel_steps(allocation_.job.id, sruns); });
  if (has_further_) cancel_or_say([&] { cancel_further_jobs(allocation_.job.id, groups().mark()); });
}

// One in a job of its own is left to Slurm: its child is an sbatch, with which that job would not end.
void SlurmStarter::end_lost(const Member& member) {
  const auto node = nodes_.find(member.label());
  const auto leaders = groups().leaders();
  const auto srun = leaders.find(member.label());
  if (node == nodes_.end() || srun == leaders.end()) return;
  places_.avoid(node->second);
  cancelling_.emplace_back(
      [job = allocation_.job.id, pid = srun->second] { cancel_or_say([&] { cancel_steps(job, {pid}); }); });
  HostStarter::end_lost(member);
}

}  // namespace embers::launch
