#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/launch/members/starter.h"

namespace embers::launch {

// Which node of a Slurm allocation a member runs on: a plain value. The master runs beside the batch script,
// on the first node, and needs a core, as a shard does; a worker needs `worker_cores`. Master and shards
// always get a place; a worker gets none when no node has its cores left. A shard's next process gets the
// node of its last one, as long as that is there: its journal may be on it.
class SlurmPlaces {
 public:
  struct Node {
    std::string name;
    uint32_t cores = 1;
  };
  SlurmPlaces(std::vector<Node> nodes, uint32_t worker_cores);

  // The node for a member, which is its place until it is given back.
  std::optional<std::string> take(const Member& member);
  void give_back(const Member& member);
  // Members get there only where there is no room elsewhere: one was lost there.
  void avoid(const std::string& name);
  // These nodes are left. Members on others keep their place until they are given back, but nobody else gets
  // there.
  void keep_only(const std::vector<std::string>& names);

 private:
  struct Place {
    std::string name;
    int64_t free = 0;  // cores; negative where more runs than there are
    int64_t members = 0;
    bool lost = false, avoided = false;
  };
  uint32_t cores_of(const Member& member) const { return member.kind == Kind::kWorker ? worker_cores_ : 1; }
  Place* choose(const Member& member);

  std::vector<Place> places_;
  const uint32_t worker_cores_;
  std::map<std::string, size_t> taken_;  // by label
  std::map<std::string, size_t> homes_;  // of shards, by label: where they have run
};

// What SLURM_JOB_CPUS_PER_NODE says, such as "4(x2),3": the cores of each node. kInvalid for anything else.
std::vector<uint32_t> parse_cpus_per_node(const std::string& text);

// How many tasks of `worker_cores` cores an allocation needs for so many members.
uint32_t tasks_for(uint32_t shards, uint32_t workers, uint32_t worker_cores);

}  // namespace embers::launch
