#pragma once

#include "apps/launch/members/starter.h"
#include "apps/launch/processes/process_groups.h"

namespace embers::launch {

// Members are child processes. Starters for other places are one, too, with other words: their children (ssh,
// srun) stand for processes elsewhere.
class HostStarter : public Starter {
 public:
  // `embers`: the program's path.
  // `slurm_job`: children may be sruns of this job; see Guard.
  explicit HostStarter(const std::string& embers, const std::string& slurm_job = "")
      : groups_(embers, slurm_job) {}

  Words words(const Order& order) const override;
  void start(const Order& order) override;
  std::vector<Ended> ended() override;
  void ask_to_end(const Member& member) override;
  void end_lost(const Member& member) override;

 protected:
  // The child that start() starts for it.
  virtual ProcessGroups::Child child(const Order& order) const;
  ProcessGroups& groups() { return groups_; }
  const ProcessGroups& groups() const { return groups_; }
  // Called after it has been started.
  virtual void on_started(const Order&) {}

 private:
  ProcessGroups groups_;
  std::map<std::string, Member> members_;  // that run, by label
};

}  // namespace embers::launch
