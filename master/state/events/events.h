#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/errors.h"
#include "master/state/events/counts.h"
#include "master/state/events/cursor.h"
#include "master/state/events/job_config.h"
#include "master/state/leases/leases.h"
#include "master/state/leases/versions.h"
#include "schema/messages/told_model.h"

// What happens to a job, and what is to be done about it: plain values, so that a job's course can be
// computed, replayed and tested without any process, thread or clock.
namespace embers {

// A moment of the master's clock. Only the actor reads that clock.
using Time = std::chrono::steady_clock::time_point;

// Names a request that is owed an answer. Every request is answered once, by Effect::Answer or
// Effect::Refuse.
using Ticket = uint64_t;

// Where a job stands; master.h has the picture.
enum class Phase : uint8_t {
  kGathering,      // members join
  kPreparing,      // rows and owners get their first state
  kTraining,       // an epoch
  kCheckpointing,  // held up in its middle, since somebody wants a checkpoint
  kSettling,       // owners say what they have applied of the epoch
  kEvaluating,     // the test set is leased
  kScoring,        // its metrics are computed
  kSaving,         // a checkpoint is written, when one is due
  kEnding,         // workers leave
  kClosing,        // owners are told to end
  kFailed,         // everybody is told why
  kOver
};

const char* name(Phase phase);
// Whether a job may go from one phase straight to the other: the arrows of master.h's picture.
bool may_follow(Phase from, Phase to);

// --- owners ----------------------------------------------------------------------------------------

// What is asked of owners. The owner that takes a lost one's place is asked what that one has not answered,
// so asking a question twice must have the same effect as asking it once.
struct Question {
  struct Fence {
    uint64_t incarnation = 0;
  };
  struct NewMap {
    uint32_t version = 0;
  };
  struct Norms {
    Commit commit;
  };
  struct Stats {
    uint32_t epoch = 0;                 // whose staleness; 0: of none
    std::vector<uint64_t> minibatches;  // of that epoch: which of these are applied?
  };
  using Any = std::variant<Fence, NewMap, Norms, Commit, Stats>;
};

// One owner's counts.
struct OwnerCounts {
  struct Applied {
    uint64_t minibatch = 0;
    uint64_t examples = 0;
  };
  OwnerStats sums;
  std::vector<Applied> applied;  // of the minibatches that were asked for
};

// Nothing but "done"; of Norms; of Stats.
using OwnerAnswer = std::variant<std::monostate, storage::SquareSums, OwnerCounts>;

// --- members ---------------------------------------------------------------------------------------

// What a member is to do.
struct Order {
  enum class What : uint8_t { kNone, kHold, kRelease, kDrain, kEvaluate, kCheckpoint };
  uint64_t number = 0;  // of the member's orders: 1, 2, ...; 0: none
  What what = What::kNone;
  uint64_t value = 0;  // kHold, kRelease: the cut
};

// What a member has done since it joined, for people; see wire::HeartbeatRequest.
struct Activity {
  uint64_t rows = 0, bytes = 0, pulls = 0, pushes = 0, applied = 0, waiting = 0;
};

// --- what happens ----------------------------------------------------------------------------------

struct Event {
  // Requests. Those with an incarnation come from a member, or from one that used to be.
  struct Join {
    Ticket ticket = 0;
    uint64_t link = 0;                   // the connection, by which LinkDown names it
    bool owner = false, reader = false;  // neither: a worker
    std::string host;
    uint64_t pid = 0;
    std::vector<std::string> endpoints;  // owner: where it listens
    std::string boot_id;
    std::vector<std::string> model, numeric, settings;  // worker: what it must agree on
    uint32_t more = 0;                                  // owner: so many of its process join after it
    uint64_t token = 0;                                 // the same when it is asked again; 0: it never is
    std::string label;                      // given by whoever started it, or "": see wire::JoinRequest
    uint32_t window = 0;                    // worker: see wire::JoinRequest
    std::shared_ptr<const ToldModel> told;  // worker: the model, as this job has it; null: it says nothing
  };
  struct Lease {
    Ticket ticket = 0;
    uint64_t incarnation = 0;
    uint64_t received = 0;  // the last lease that the worker has received
  };
  struct Begin {
    Ticket ticket = 0;
    uint64_t incarnation = 0, lease = 0, minibatch = 0;
    uint32_t attempt = 0;
  };
  struct Done {
    Ticket ticket = 0;
    uint64_t incarnation = 0, lease = 0, minibatch = 0;
    uint32_t attempt = 0;
    bool returned = false;  // not finished: it is to be leased again
    uint64_t examples = 0, skipped = 0, late_pulls = 0, keys = 0, cache_hits = 0, direct_rows = 0,
             owner_rows = 0;
    double loss_sum = 0;
    StageTimes stages;
  };
  struct Heartbeat {
    Ticket ticket = 0;
    uint64_t incarnation = 0;  // 0 before the join
    bool stop = false;         // the user asked this process to stop
    Activity activity = {};
  };
  struct Owners {
    Ticket ticket = 0;
    uint64_t incarnation = 0;
    uint32_t map_version = 0;  // that the worker knows
  };
  struct Orders {
    Ticket ticket = 0;
    uint64_t incarnation = 0;
    uint64_t received = 0, carried_out = 0;  // numbers of the last ones
  };
  struct Fail {
    Ticket ticket = 0;
    uint64_t incarnation = 0;  // 0: a worker of this process
    Error error;
  };
  struct Leave {
    Ticket ticket = 0;
    uint64_t incarnation = 0;
    std::string reason = {};  // why it cannot go on; "": it is done
  };

  // From those who steer the job.
  struct Scale {
    Ticket ticket = 0;
    uint32_t workers = 0;  // wanted from now on
  };
  struct Drain {
    Ticket ticket = 0;
    std::vector<std::string> members;  // names or labels of workers
  };
  struct End {
    Ticket ticket = 0;
    bool save = true;
    std::string why = {};  // "": embers stop
  };
  struct Checkpoint {
    Ticket ticket = 0;
    uint64_t id = 0;  // of the wish: the same when it is asked again
    std::string directory;
  };

  // From the master's own process.
  struct Stop {
    std::string why;
  };
  struct Tick {};  // about JobState::beat() after the last one
  // A member has made another connection, and asks over that one from now on.
  struct Reconnected {
    uint64_t incarnation = 0;
    uint64_t link = 0;
  };
  // A peer's connection ended.
  struct LinkDown {
    uint64_t link = 0;
    std::string why;
    bool hung_up = false;  // at its other end; otherwise nothing was heard over it any more
  };

  // What became of effects.
  struct Connected {
    uint64_t incarnation = 0;
  };
  struct NotConnected {
    uint64_t incarnation = 0;
    Error error;
  };
  // The master's own connection to an owner ended.
  struct OwnerDown {
    uint32_t number = 0;
    uint64_t incarnation = 0;  // of the process that it led to; 0: this process
    std::string why;
  };
  struct OwnerAnswered {
    uint32_t number = 0;
    uint64_t incarnation = 0;
    uint64_t question = 0;
    OwnerAnswer answer;
  };
  struct OwnerFailed {  // instead of OwnerAnswered
    uint32_t number = 0;
    uint64_t incarnation = 0;
    uint64_t question = 0;
    Error error;
  };
  struct OwnerTold {};  // of the job's end; or it can no longer be told
  struct Prepared {
    Cursor at;  // where the job begins
  };
  struct Counted {
    uint64_t minibatches = 0;  // of the evaluation: [0, minibatches) are summed up
  };
  struct Scored {
    double loss = 0, auc = 0, accuracy = 0;  // NaN: does not exist
    uint64_t examples = 0;
  };
  struct Saved {
    bool checkpoint = false;  // was written
  };
  struct WorkFailed {  // instead of Prepared, Saved
    Error error;
  };
  struct CheckpointSaved {};
  struct CheckpointFailed {  // instead of CheckpointSaved
    Error error;
  };
  struct EvaluationFailed {  // instead of Counted, Scored
    Error error;
  };

  Time at;
  std::variant<Join, Lease, Begin, Done, Heartbeat, Owners, Orders, Fail, Leave, Scale, Drain, End,
               Checkpoint, Stop, Tick, Reconnected, LinkDown, Connected, NotConnected, OwnerDown,
               OwnerAnswered, OwnerFailed, OwnerTold, Prepared, Counted, Scored, Saved, WorkFailed,
               CheckpointSaved, CheckpointFailed, EvaluationFailed>
      what;
};

// --- what is to be done ----------------------------------------------------------------------------

// Answers to requests; the rest of what the messages hold is constant.
struct Reply {
  // Where an owner listens; nothing for an owner of this process.
  struct Address {
    std::vector<std::string> endpoints;
    std::string boot_id;
  };
  using Addresses = std::shared_ptr<const std::vector<Address>>;  // in order of the owners' numbers
  struct Join {
    uint64_t incarnation = 0;
    uint32_t number = 0, map_version = 0;
    bool takes_over = false;  // an owner: from a lost one
    bool reader = false;      // must not know what lets it write to the job's servers
    Addresses owners;         // only for workers and readers; else null
  };
  struct Lease {
    enum class Kind : uint8_t { kTrain, kEvaluate, kEnd, kLater };
    Kind kind = Kind::kEnd;
    uint32_t epoch = 0;
    uint64_t version = 0;
    LeaseBook::Lease lease = {};
  };
  struct Begin {
    bool begun = false;
  };
  struct Done {
    bool accepted = false;
  };
  struct Heartbeat {
    double interval = 0, timeout = 0;  // seconds
    uint32_t map_version = 0;
  };
  struct Owners {
    uint32_t map_version = 0;
    Addresses owners;
  };
  struct Checkpoint {
    bool saved = false;  // else: not yet
  };
  struct Empty {};
  using Any = std::variant<Join, Lease, Begin, Done, Heartbeat, Owners, Order, Checkpoint, Empty>;
};

struct Effect {
  struct Answer {
    Ticket ticket = 0;
    Reply::Any reply;
  };
  struct Refuse {
    Ticket ticket = 0;
    Error error;
  };
  struct Say {  // for people
    std::string line;
  };
  struct ShowProgress {
    Progress progress;  // but for the metrics of recent minibatches
  };
  struct Entered {
    Phase phase;
  };

  // The model has come with the request at hand: from now on, this is the job.
  struct Adopt {
    std::shared_ptr<const JobConfig> config;
  };
  // Connect to an owner process that joins: Connected or NotConnected.
  struct Connect {
    uint32_t number = 0;
    uint64_t incarnation = 0;
    std::string who;  // for messages
    std::vector<std::string> endpoints;
    std::string boot_id;
  };
  // End that connection: what was asked through it is answered by OwnerFailed.
  struct Drop {
    uint64_t incarnation = 0;
  };
  // OwnerAnswered or OwnerFailed.
  struct Ask {
    uint32_t number = 0;
    uint64_t incarnation = 0;
    uint64_t id = 0;
    Question::Any question;
  };
  // The job is over: OwnerTold, within `timeout`.
  struct Tell {
    uint32_t number = 0;
    uint64_t incarnation = 0;
    bool ok = false;
    std::string message;
    std::chrono::seconds timeout{};
  };

  // Give rows and owners their first state: Prepared or WorkFailed.
  struct Prepare {
    Cursor here;  // as this job would write it
  };
  // Scores and labels that came with the Event::Done at hand count.
  struct CountTrained {};
  // Counted, in the order of these effects, or EvaluationFailed.
  struct CountEvaluated {
    uint64_t minibatch = 0;
  };
  // Metrics of all that CountEvaluated named since kEvaluating was entered: Scored or EvaluationFailed.
  struct Score {};
  // Saved or WorkFailed.
  struct Save {
    bool checkpoint = false, rows = false;  // what is to be written; nothing: Saved at once
    Cursor at;
  };
  // CheckpointSaved or CheckpointFailed. Rows do not change until then.
  struct Checkpoint {
    std::string directory;
    Cursor at;
  };

  std::variant<Answer, Refuse, Say, ShowProgress, Entered, Adopt, Connect, Drop, Ask, Tell, Prepare,
               CountTrained, CountEvaluated, Score, Save, Checkpoint>
      what;
};

}  // namespace embers
