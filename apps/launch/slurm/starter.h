#pragma once

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/launch/processes/host_starter.h"
#include "apps/launch/slurm/commands/commands.h"
#include "apps/launch/slurm/places.h"
#include "client/joining/slurm.h"

namespace embers::launch {

// What a starter needs to know of the Slurm job that it runs in.
struct SlurmAllocation {
  SlurmJob job;
  std::string name;                      // of the job
  std::vector<SlurmPlaces::Node> nodes;  // the first one is that of the batch script
};
// Asks Slurm. kInvalid where this process is not in an allocation of a job, or Slurm does not say what is in
// it.
SlurmAllocation slurm_allocation();

// Members are steps of the allocation, each started by an srun, which is a child of this process. A worker
// for which the allocation has no cores left gets a job of its own, of the same name, which joins as any
// other worker: its child is an sbatch that waits for its end.
//
// With its srun, a member's step is ended (scancel): a step whose srun was killed goes on. So it is when the
// launcher is killed; see Guard.
//
// An srun ends when Slurm has noticed that its node has failed, which takes it minutes (SlurmdTimeout). A
// member that the master has lost is replaced before that, on another node if there is room, and its srun is
// ended. An srun ends with status 0 when its node fails. That is good enough for a worker: whoever asks for
// it gets another one as long as the master wants it.
//
// Once a member has ended, its node may have failed. Slurm is asked which nodes are left before others get a
// place, and they wait for its answer; start() does not.
class SlurmStarter final : public HostStarter {
 public:
  SlurmStarter(const std::string& embers, SlurmAllocation allocation, SchedulerOptions options);
  ~SlurmStarter() override;

  Words words(const Order& order) const override;
  void start(const Order& order) override;
  std::vector<Ended> ended() override;
  void end_lost(const Member& member) override;

 private:
  ProcessGroups::Child child(const Order& order) const override;
  void start_at_place(const Order& order);
  void look();
  void ask_slurm(const Words& words);
  bool has_looked();

  const SlurmAllocation allocation_;
  const SchedulerOptions options_;
  SlurmPlaces places_;
  std::map<std::string, std::string> nodes_;  // of members, by label; those not in it have jobs of their own
  bool has_further_ = false;                  // such jobs, once
  bool look_again_ = false;                   // nodes may have failed
  std::optional<SlurmCommand> looking_;       // asks for those that are left
  bool names_ = false;                        // and it is the second question: for the names in its answer
  std::vector<Order> waiting_;                // to be started after that
  std::vector<std::jthread> cancelling_;      // steps of members that were lost
};

// The words of the step on a node, or of the job of its own, that runs a member.
Words step_words(const Order& order, const std::string& node, uint32_t cores);
Words job_words(const Order& order, const SlurmAllocation& allocation, const SchedulerOptions& options,
                const std::string& mark);

}  // namespace embers::launch
