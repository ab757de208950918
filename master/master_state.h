#pragma once

#include <map>
#include <set>
#include <vector>

#include "actors/errors.h"
#include "master/clocks.h"
#include "master/leases.h"
#include "master/master.h"
#include "master/membership.h"
#include "master/snapshot.h"
#include "master/versions.h"

namespace embers {

using tick_atom = caf::atom_constant<caf::atom("tick")>;
using MasterImpl = LocalMasterActor::extend<caf::reacts_to<tick_atom>>;

// Whether the error means that the actor that was asked is gone, rather than that the question was wrong.
inline bool is_gone(const Error& why) {
  return remedy(why.code()) == Remedy::kRetry || why.code() == ErrorCode::kUnreachable;
}

// Whether owners of other processes can go on where they were cut off.
inline bool keeps_journal(const MasterConfig& config) {
  const auto& storage = config.job.storage;
  return storage.backend != "memory" && !storage.journal.empty();
}

// The master's state machine; see master.h for its picture. Used only within its actor.
struct MasterState {
  using Self = MasterImpl::stateful_pointer<MasterState>;
  using Clock = std::chrono::steady_clock;
  template <class Reply>
  using Promise = caf::typed_response_promise<Message<Reply>>;
  enum class Phase : uint8_t {
    kGathering,
    kPreparing,
    kTraining,
    kEvaluating,
    kSaving,
    kEnding,
    kFailed,
    kOver
  };

  static inline const char* name = "master";

  void start(Self self, std::shared_ptr<const MasterConfig> config);

  // --- membership (master_members.cc) ------------------------------------------------------------
  Message<wire::JobReply> describe_job() const;
  void join(wire::JoinRequest::Reader request, const caf::actor_addr& sender,
            Promise<wire::JoinReply> promise);
  Message<wire::HeartbeatReply> heartbeat(wire::HeartbeatRequest::Reader request);
  void leave(wire::LeaveRequest::Reader request);
  void owners_for(wire::OwnersRequest::Reader request, Promise<wire::OwnersReply> promise);
  void down(const caf::down_msg& down);
  void tick();

  // --- leases (master_leases.cc) -----------------------------------------------------------------
  void lease(uint64_t incarnation, Promise<wire::LeaseReply> promise);
  Message<wire::DoneReply> done(const Message<wire::DoneRequest>& message);

  // --- the end (master_end.cc) -------------------------------------------------------------------
  void stop(const std::string& why);
  void fail_job(const Error& error);
  void worker_failed(wire::FailRequest::Reader request);

 private:
  struct WaitingLease {
    uint64_t incarnation;
    Promise<wire::LeaseReply> promise;
  };
  struct WaitingOwners {
    uint64_t incarnation;
    Promise<wire::OwnersReply> promise;
    Clock::time_point since;
  };
  // A lost owner, whose place a new process may take.
  struct Away {
    std::string lost;  // who, and why
    Clock::time_point deadline;
    std::optional<OwnerHandles> joined;  // the new process, until it is known to be where it should be
  };
  struct WaitingJoin {
    uint64_t incarnation;
    Promise<wire::JoinReply> promise;
  };

  // membership
  void join_owner(Member& member);
  OwnerHandles connect_owner(const Member& member);  // and watches it
  void check_owner(const Member& joining) const;
  void check_worker(wire::JoinRequest::Reader request) const;
  void accept_numeric_settings(wire::JoinRequest::Reader request);
  std::vector<std::string> numeric_differences(wire::JoinRequest::Reader request) const;
  void check_settings(const std::vector<std::string>& theirs, const std::string& where) const;
  void answer_joins();
  Message<wire::JoinReply> join_reply(const Member& member) const;
  void lose_worker(uint64_t incarnation, const std::string& why);
  void forget_worker(uint64_t incarnation);
  void check_silence();
  Clock::duration silence() const {  // after which a member is given up on
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(config->job.job.heartbeat_timeout));
  }
  void report_progress();

  // lost owners (master_lost_owners.cc)
  void lose_owner(uint32_t number, const std::string& why);
  bool waits_for(uint32_t number) const;
  std::optional<uint32_t> free_place() const;
  void take_over(Member& member);
  void check_return(uint32_t number, const OwnerHandles& owner, uint64_t version);
  void go_on();
  void answer_owners(Clock::time_point asked_before);
  Message<wire::OwnersReply> owners_reply() const;
  void check_away();

  // the job (master.cc)
  bool over_or_failed() const { return phase == Phase::kFailed || phase == Phase::kOver; }
  bool sync() const { return config->job.training.mode == job::Mode::kSync; }
  bool bounded() const { return config->job.training.mode == job::Mode::kBounded; }
  void maybe_start();
  void after_progress();
  void commit();
  void send_commit(const storage::SquaredNorms& norms);
  bool drained() const;

  // leases
  void serve_leases();
  LeaseBook& book() { return phase == Phase::kEvaluating ? eval_book : train_book; }
  bool may_grant() const;
  uint32_t most_to_grant(uint64_t incarnation);
  void trained(wire::DoneRequest::Reader request);
  void evaluated(const Message<wire::DoneRequest>& message);

  // epochs (master_epochs.cc)
  void begin_epoch(uint32_t number, uint64_t next, const std::vector<uint64_t>& again);
  void end_epoch();
  void close_epoch(const OwnerStats& stats);
  void begin_evaluation();
  void end_evaluation();
  void close_evaluation(const Evaluation::Metrics& metrics);
  void limit_evaluation();
  Cursor cursor() const;
  void save_or_go_on();

  // the end
  void finish();
  void end_owners();
  void over();
  void report_end();

  // owners and files (master_owners.cc)
  // Runs `work` in an actor of its own, then `then` here; an error fails the job.
  void background(std::function<void(caf::blocking_actor*)> work, std::function<void()> then);
  // Asks every owner; `then` runs with all the answers. An error fails the job, naming the owner. An owner
  // that is away, or is lost before it answers, is asked again when it is back, so asking a question twice
  // must have the same effect as asking it once.
  template <class T>
  void ask_owner(uint32_t number, const Message<T>& question,
                 std::function<void(const Message<typename KindOf<T>::Reply>&)> then);
  template <class T>
  void ask_owners(const Message<T>& question,
                  std::function<void(const std::vector<Message<typename KindOf<T>::Reply>>&)> then);
  void with_stats(std::function<void(const OwnerStats&)> then);
  OwnerStats settle(const std::vector<Message<wire::StatsReply>>& replies);
  SnapshotContext snapshot_context() const;

  void event(const std::string& line) const {
    if (config->on_event) config->on_event(line);
  }

  Self self = nullptr;
  std::shared_ptr<const MasterConfig> config;
  std::vector<std::string> model_signature;
  std::vector<std::string> numeric_settings;  // of the first worker
  std::chrono::duration<double> beat{1};      // between heartbeats and ticks
  Phase phase = Phase::kGathering;
  std::optional<Error> error;  // once failed
  std::string stopping;        // why the job stops early, or ""

  Membership members;
  Clock::time_point last_tick = Clock::now();
  std::map<uint32_t, OwnerHandles> owners;          // by owner number
  std::map<caf::actor_addr, uint32_t> owner_links;  // monitored proxies
  std::map<uint32_t, Away> away;                    // by owner number; not in `owners`
  bool paused = false;       // nothing is leased: an owner is away, or not all know the new map
  bool save_again = false;   // save_or_go_on() runs again once all owners are there
  uint32_t map_version = 1;  // raised with each owner that takes the place of a lost one
  uint64_t last_question = 0;
  std::map<uint32_t, std::map<uint64_t, std::function<void()>>> questions;  // of each owner, unanswered
  std::vector<WaitingOwners> waiting_owners;
  std::vector<WaitingJoin> waiting_joins;
  std::vector<WaitingLease> waiting_leases;
  Clock::time_point alone_since;  // without any worker, while training or evaluating
  Clock::time_point deadline;     // of an ending or failed job
  std::set<uint64_t> told;        // workers that know of the end or failure
  size_t owners_to_tell = 0;      // of a failure

  uint32_t epoch = 0;
  LeaseBook train_book, eval_book;
  std::vector<Partial> partial;  // of a stopped async epoch
  VersionWindow window;          // sync
  Clocks clocks;                 // bounded
  bool clips_by_norm = false;    // each commit needs the norms of its gradients
  bool committing = false;
  bool stats_pending = false;
  Clock::time_point epoch_start, evaluation_start;
  uint64_t epoch_first_examples = 0;  // the owners' count at its begin
  OwnerStats stats;                   // the latest
  double loss_sum = 0, epoch_loss_sum = 0;
  uint64_t loss_examples = 0, epoch_loss_examples = 0;
  StageTimes epoch_stages;
  uint64_t epoch_keys = 0, epoch_cache_hits = 0;
  RecentWindow recent;
  EvaluatorActor evaluator;          // once an evaluation has begun
  uint64_t evaluation_counted = 0;   // minibatches that it has counted, in order
  uint64_t evaluation_examples = 0;  // that workers have evaluated
  Report report;
};

}  // namespace embers
