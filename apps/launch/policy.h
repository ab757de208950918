#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/launch/members/starter.h"

namespace embers::launch {

using Seconds = double;  // on the launcher's clock, which never goes back

// What the master says of its job, as far as it concerns who starts processes.
struct JobView {
  struct Joined {
    Seconds since = 0;    // how long ago
    bool useful = false;  // it has got something done
  };
  uint32_t workers_wanted = 0;
  uint32_t other_workers = 0;             // in the job, and not started by this launcher
  bool misses_shards = false;             // fewer have joined than it needs
  bool begun = false;                     // all that it waited for have joined
  bool ending = false;                    // it is over, or stopping
  std::map<std::string, Joined> members;  // by label
  // Labels of those that have lost their connection and may come back, and of all that the master knows.
  std::set<std::string> disconnected, known;
};

struct PolicyOptions {
  uint32_t shards = 1, workers = 1;  // to begin with
  uint32_t owners = 0;               // the first workers, which are the job's shards, too
  bool shards_return = false;        // a shard that is lost may be started again
  uint32_t max_restarts = 3;         // in a row, of one member
};

// Decides which members to start, and when: a plain value without processes, clock or connections. It is told
// what happened; due() says what to start now.
//
//            due()                      ended                   due(), if it is wanted
//   free ───────────► running ─────────────────────► waiting ───────────────────────────► running
//    ▲                   │                              │ after max_restarts in a row
//    └───────────────────┘                              └───────────────────────────────► given up
//      a worker that leaves
//      after work well done
//
// - The master comes first; the others follow once it listens. After it, nobody is started.
// - No more than kAtOnce are started at a time: starting one takes a moment, and others may die meanwhile.
// - As many workers run as the master wants, less those that others have started. Places are filled again,
//   the lowest number first.
// - After a member has ended, its place stays empty until the master has been heard again: it may have
// drained
//   that worker, or the job may be over.
// - A member that ended comes back after kFirstDelay, and after twice as long each time that it then ends
//   without having got something done.
// - The job is given up on when a shard is, or when a worker is and no other is left to do its work. Until a
//   job has begun, it needs all of them.
// - A member that the master has lost is to be ended, so that another process takes its place. One that
//   leaves says so over a connection; one that is lost has none any more.
// - A shard that ended comes back only where the master misses one: some jobs need none.
// - Once the job has begun, no shard that has joined it, and no worker that holds rows, is started again,
//   unless the job has a journal: the master ends the job. Where such a worker is given up on, so is the job.
class Policy {
 public:
  static constexpr Seconds kFirstDelay = 1, kLongestDelay = 30;
  static constexpr size_t kAtOnce = 16;

  explicit Policy(PolicyOptions options) : options_(options) {}

  // --- what happened ---------------------------------------------------------------------------
  void on_master_listens() { master_listens_ = true; }
  // The master's answer to a question that was asked at `asked`.
  void on_view(const JobView& view, Seconds asked);
  // A member that due() named has ended, or could not be started.
  void on_end(const Member& member, const Ending& ending, Seconds now);
  // The job is to end: nobody is started any more.
  void on_stop() { stopping_ = true; }

  // --- what to do ------------------------------------------------------------------------------
  // Members to start now; from here on they count as running.
  std::vector<Member> due(Seconds now);

  // Members whose processes are to be ended since the master has lost them, since the last call. They may
  // hang, or stand for others on a host that is gone.
  std::vector<Member> take_lost();

  struct GivenUp {
    Member member;
    Ending ending;        // the last one
    uint32_t starts = 0;  // in a row
  };
  // Members that were given up on since the last call.
  std::vector<GivenUp> take_given_up();
  // Why the job cannot go on, once it cannot.
  const std::optional<GivenUp>& hopeless() const { return hopeless_; }

 private:
  enum class State : uint8_t { kFree, kRunning, kWaiting, kGivenUp };
  struct Place {
    State state = State::kFree;
    uint32_t restarts = 0;  // in a row
    bool joined = false, useful = false;
    Seconds started = 0, ended = 0;
    Ending ending;
  };
  struct Group {
    Kind kind;
    std::map<uint32_t, Place> places = {};  // by number
    uint32_t count(State state) const;
  };
  using Members = std::vector<Member>;

  static Seconds delay(uint32_t restarts);
  bool may_start() const;
  bool holds_rows(const Member& member) const {
    return member.kind == Kind::kShard || member.number < options_.owners;
  }
  uint32_t wanted_workers() const { return asked_ < 0 ? options_.workers : view_.workers_wanted; }
  // Of workers, for which no place runs, or is given up on; those to come back count.
  uint32_t missing_workers() const;
  bool has_heard_since(Seconds when) const { return asked_ > when; }
  void note_lost(const Group& group, const JobView& next);
  void note_joined(Group& group, Seconds asked);
  void start(Group& group, uint32_t number, Seconds now, Members& members);
  // What becomes of a place that waits; false when it is too early to say.
  bool start_again(Group& group, uint32_t number, Seconds now, Members& members);
  void start_shards(Seconds now, Members& members);
  void start_workers(Seconds now, Members& members);

  const PolicyOptions options_;
  bool master_started_ = false, master_listens_ = false, master_ended_ = false, stopping_ = false;
  JobView view_;
  Seconds asked_ = -1;        // when the master was asked for view_; negative: never
  Seconds worker_left_ = -1;  // when a worker ended last; negative: none has
  Group shards_{Kind::kShard}, workers_{Kind::kWorker};
  std::vector<Member> lost_;
  std::vector<GivenUp> given_up_;
  std::optional<GivenUp> last_given_up_, hopeless_;
};

}  // namespace embers::launch
