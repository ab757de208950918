#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace embers::launch {

enum class Kind : uint8_t { kMaster, kShard, kWorker };

// A member of the job that the launcher wants to run.
struct Member {
  Kind kind = Kind::kMaster;
  uint32_t number = 0;   // among those of its kind, from 0; not the number that the master gives it
  uint32_t restart = 0;  // how often in a row it was started again; may choose another host

  // What people call it: "master", "s0", "w3". Unique in a launcher. A member that is started again keeps it.
  std::string label() const;
};

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

// How to run a member on this host. A starter for other places puts its own words around it.
struct Order {
  Member member;
  Words words;              // the program, and what it is called with
  Environment environment;  // besides that of this process
  std::string log;          // file to which its standard error is appended
  std::string output;       // new file for its standard output; "": that is appended to the log, too
};

// How the process of a member ended.
struct Ending {
  int status = 0;   // its exit status; 128 + n if signal n ended it
  std::string how;  // for people: "status 1", "signal 9 (Killed)"
};

struct Ended {
  Member member;
  Ending ending;
};

// Where members run: on this host, on others by ssh, as the steps of a Slurm job. A starter runs one process
// per member; with that process ends whatever it has started.
//
// *Thread safety*: all members from the thread that made it. None of them waits for anything slow.
class Starter {
 public:
  virtual ~Starter() = default;  // ends all members at once
  // The words that start() runs on this host, for people (--dry-run).
  virtual Words words(const Order& order) const = 0;
  // Starts a process for the member, which must have none. Throws embers::Error if that fails.
  virtual void start(const Order& order) = 0;
  // Those that have ended since the last call.
  virtual std::vector<Ended> ended() = 0;
  // Asks the member to end, as SIGTERM does: a master saves and ends its job, a worker finishes what it has.
  // Of a starter for other places, the member may end at once.
  virtual void ask_to_end(const Member& member) = 0;
  // Ends the member, which the master has lost: it may hang, or have run on a host that is gone.
  virtual void end_lost(const Member& member) = 0;
};

}  // namespace embers::launch
