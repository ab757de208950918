#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/state/events/events.h"
#include "master/state/events/job_config.h"
#include "master/state/events/orders.h"
#include "master/state/events/questions.h"
#include "master/state/events/waiting_list.h"
#include "master/state/events/wanted_checkpoint.h"
#include "master/state/leases/clocks.h"
#include "master/state/leases/lease_deadlines.h"
#include "master/state/membership.h"
#include "master/state/progress/time_left.h"
#include "schema/partition.h"
#include "schema/status.h"

namespace embers {

// Whether the error means that the process that was asked is gone, rather than that the question was wrong.
inline bool is_gone(const Error& why) {
  return remedy(why.code()) == Remedy::kRetry || why.code() == ErrorCode::kUnreachable;
}

// A job as its master knows it: who is in it, who computes what, which version is complete, where it stands.
// A plain value: on() is the only thing that changes it, and does nothing but change it and return what is to
// be done. The same events give the same effects. It never reads a clock; time comes with events.
//
// Invariants: (1) a minibatch is leased to one worker at a time, unless that worker is late or not connected,
// and none is ever dropped; (2) an accepted minibatch is in exactly one version (sync), or counted in its
// epoch once (async, bounded); (3) its phase changes in enter() alone, along the arrows of master.h's
// picture; (4) every request is answered exactly once, at the latest when the job is over; (5) it holds no
// more than its members, what they were leased and what they wait for.
class JobState {
 public:
  // The first owners may be of the master's own process: they need not join.
  JobState(std::shared_ptr<const JobConfig> config, uint32_t local_owners, bool shows_progress, Time now);

  std::vector<Effect> on(const Event& event);

  Phase phase() const { return phase_; }
  const std::optional<Error>& error() const { return error_; }  // once failed
  const Report& report() const { return report_; }
  // The job has no model and data of its own, and no worker has told them yet.
  bool wants_model() const { return config_->job.model_from_worker() && told_model_ == nullptr; }
  bool wants_checkpoint() const { return checkpoint_.has_value(); }  // somebody does, and it is not there yet
  const Membership& members() const { return members_; }
  uint32_t wanted_workers() const { return wanted_workers_; }
  OwnerMap map() const;
  double beat() const;  // seconds between heartbeats, and between ticks
  // All but what only the actor knows: the job's file, the task of people, metrics of recent minibatches.
  Status status(Time now) const;
  // Seconds until the job has ended; none when it is not known.
  std::optional<double> remaining() const;
  // What it holds now, and may have to hold on to for a while.
  struct Held {
    size_t members = 0, requests = 0, questions = 0, minibatches = 0;
  };
  Held held() const;

 private:
  // A place in the owner map. One that was never taken is empty; one that was lost is `away` until a process
  // has taken it over.
  struct Place {
    enum class Holder : uint8_t { kNobody, kConnecting, kConnected };
    struct Away {
      std::string lost;  // who, and why
      Time deadline;
    };
    Holder holder = Holder::kNobody;
    uint64_t incarnation = 0;  // of the holder; 0: this process
    bool waits = false;        // to be connected to, for the job's model
    Ticket join = 0;           // of one that is being connected to
    std::optional<Away> away;  // the holder, if any, is to take over from a lost one
    // The question that shows that the holder can be reached, and what version it is at.
    uint64_t first_question = 0;
    bool answered = false;  // that question

    bool there() const { return holder == Holder::kConnected && answered; }
    // It has joined, and nothing has been heard from it over the master's own connection to it.
    bool unproven() const { return holder == Holder::kConnected && !answered && !away; }
  };
  // An owner process that waits for a place: all are taken, but the holder of one may be gone already.
  struct Applicant {
    Event::Join join;
    Time until;
  };
  // What workers finished of an epoch.
  struct EpochSums {
    Time start;
    uint64_t first_examples = 0;  // the owners' count at its begin
    double loss_sum = 0;
    uint64_t examples = 0, keys = 0, cache_hits = 0;
    StageTimes stages;
    // False when the job stopped without any worker: some pushes were never finished or never committed.
    bool whole = true;
  };

  // --- events ------------------------------------------------------------------------------------
  // A request is refused by throwing an Error, before anything has changed.
  void take(const Event::Join& e);
  void take(const Event::Lease& e);
  void take(const Event::Begin& e);
  void take(const Event::Done& e);
  void take(const Event::Heartbeat& e);
  void take(const Event::Owners& e);
  void take(const Event::Orders& e);
  void take(const Event::Fail& e);
  void take(const Event::Leave& e);
  void take(const Event::Scale& e);
  void take(const Event::Drain& e);
  void take(const Event::End& e);
  void take(const Event::Checkpoint& e);
  void take(const Event::Stop& e) { stop(e.why); }
  void take(const Event::Tick& e);
  void take(const Event::Reconnected& e);
  void take(const Event::LinkDown& e);
  void take(const Event::Connected& e);
  void take(const Event::NotConnected& e);
  void take(const Event::OwnerDown& e);
  void take(const Event::OwnerAnswered& e);
  void take(const Event::OwnerFailed& e);
  void take(const Event::OwnerTold& e);
  void take(const Event::Prepared& e);
  void take(const Event::Counted& e);
  void take(const Event::Scored& e);
  void take(const Event::Saved& e);
  void take(const Event::WorkFailed& e);
  void take(const Event::CheckpointSaved& e);
  void take(const Event::CheckpointFailed& e);
  void take(const Event::EvaluationFailed& e) { fail_job(e.error); }

  template <class E>
  void effect(E e) {
    effects_.push_back({std::move(e)});
  }
  void say(std::string line) { effect(Effect::Say{std::move(line)}); }
  void refuse(Ticket ticket, const Error& why) { effect(Effect::Refuse{ticket, why}); }

  // --- its course (job_state.cc) -----------------------------------------------------------------
  void enter(Phase next);
  bool step();
  bool drained() const;
  bool has_begun_no_version() const;
  void commit();
  void send_commit(storage::SquaredNorms norms);
  bool stopped() const { return !report_.stopped_by.empty(); }
  bool over_or_failed() const { return phase_ >= Phase::kClosing; }
  bool sync() const { return config_->job.training.mode == job::Mode::kSync; }
  bool bounded() const { return config_->job.training.mode == job::Mode::kBounded; }
  Time after(double seconds) const;
  double seconds_since(Time then) const;

  // --- who gets in (job_joins.cc) ----------------------------------------------------------------
  static Member joining(const Event::Join& e);
  void admit(const Event::Join& e);
  void join_again(Member& member, const Event::Join& e);
  // An owner process for which all places are taken may wait: the holder of one may be gone already.
  bool may_find_a_place(const Event::Join& e) const;
  void apply(const Event::Join& e);
  void admit_applicants();
  size_t open_places() const;
  bool fits(const Member& joining) const;
  void check_owner(const Member& joining) const;
  void check_worker(const Event::Join& e) const;
  void check_told(const Event::Join& e, const std::string& where) const;
  void adopt(const Event::Join& e, const Member& worker);
  void take_work(const Event::Join& e, JobConfig& config) const;
  void accept_numeric_settings(const Event::Join& e);
  std::vector<std::string> numeric_differences(const Event::Join& e) const;
  void check_settings(const std::vector<std::string>& theirs, const std::string& where) const;
  Reply::Join join_reply(const Member& member);
  const Reply::Addresses& addresses();
  void answer_joins();

  // --- members (job_members.cc) ------------------------------------------------------------------
  static constexpr const char* kAskedAgain = "it was asked again before it was answered";
  Member& member(uint64_t incarnation);  // or kFenced
  void check_failed(uint64_t incarnation);
  void disconnected(Member& member, const Event::LinkDown& e);
  void refuse_waiting(WaitingList& list, uint64_t incarnation, const Error& why);
  std::string what_was_done(uint64_t incarnation) const;
  void lose(uint64_t incarnation, const std::string& why);
  void lose_worker(uint64_t incarnation, const std::string& why);
  void forget_worker(uint64_t incarnation);
  void remove(uint64_t incarnation, const Error& why);
  void answer_order(uint64_t member);
  void answer_orders();
  void check_silence();
  void check_silent_workers();
  void wait(WaitingList& list, const Waiting& request);

  // --- who steers it (job_control.cc) ------------------------------------------------------------
  void check_steerable() const;
  Error ended() const;
  Member& worker_named(const std::string& name);
  void drain(Member& worker);
  void drain_surplus();
  uint32_t workers_to_begin() const { return std::min(config_->workers, wanted_workers_); }

  // --- a checkpoint on demand (job_checkpoint.cc) ------------------------------------------------
  bool trains() const { return phase_ == Phase::kTraining || phase_ == Phase::kCheckpointing; }
  bool begins_nothing() const;
  bool nobody_works() const;
  bool begin_checkpoint();
  void write_checkpoint(const std::map<uint32_t, OwnerAnswer>& counts);
  bool writes_checkpoint() const {
    return checkpoint_ && checkpoint_->stage == WantedCheckpoint::Stage::kWriting;
  }
  void end_checkpoint(const std::optional<Error>& error);
  void go_on_saving();
  void check_checkpoint();

  // --- how it stands (job_status.cc) -------------------------------------------------------------
  Status::Member describe(const Member& member, Time now) const;
  std::string state_of(const Member& member) const;

  // --- leases (job_leases.cc) --------------------------------------------------------------------
  void serve_leases();
  void serve_all_again() { served_ = {}; }  // something else has changed, too
  LeaseBook& book() { return phase_ == Phase::kEvaluating ? eval_book_ : train_book_; }
  bool may_grant() const;
  uint32_t most_to_grant(uint64_t incarnation);
  void trained(const Event::Done& e);
  void evaluated(const Event::Done& e);
  void check_late();
  void find_quiet();
  std::string describe(const LeaseDeadlines::Late& late) const;
  void hold_nobody_up();
  void no_longer_late(uint64_t worker);
  size_t lease_to_others(uint64_t worker);
  void lease_to_it_alone(uint64_t worker);
  void take_back_lost(uint64_t worker, uint64_t received);
  void show_progress();

  // --- leases ahead (job_ahead.cc) ---------------------------------------------------------------
  void serve_draws();
  void serve_begins();
  std::vector<uint64_t> drawing() const;
  static LeaseBook::Stripe stripe_of(uint64_t worker, const std::vector<uint64_t>& drawing);
  void find_away(uint64_t below, uint64_t asker, Time since);
  std::optional<LeaseBook::Lease> draw(const Member& worker);
  Reply::Lease leased(LeaseBook::Lease lease) const;

  // --- owners (job_owners.cc) --------------------------------------------------------------------
  size_t owners_there() const;
  bool owners_missing() const;
  void ask_owners(Question::Any question, Then then);
  void answered(const Questions::Open& question);
  void lose_holder(uint32_t number, const std::string& why);
  void lose_owner(uint32_t number, const std::string& why);
  bool is_replaceable(const Member& owner) const;
  void turn_away(uint32_t number, const Error& why);
  void leaves(uint32_t number, const std::string& why);
  void vacate(Place& place, const Error& reason, const std::string& what);
  void owner_error(uint32_t number, const Error& why);
  bool keeps_journal() const;
  bool waits_for(uint32_t number) const;
  std::optional<uint32_t> place_for_owner() const;
  Place* place_of(uint64_t incarnation);
  void connect(Place& place);
  void check_return(uint32_t number, uint64_t version);
  void go_on();
  void answer_owners(Time asked_before);
  void check_away();
  // The owners' sums without minibatches that only some of them applied, and which these are. Others are
  // done.
  struct Settled {
    OwnerStats sums;
    std::vector<Partial> partial;
    std::vector<uint64_t> done;
  };
  static Settled settle(const std::map<uint32_t, OwnerAnswer>& answers);

  // --- epochs (job_epochs.cc) --------------------------------------------------------------------
  void begin_epoch(uint32_t number, uint64_t next, const std::vector<uint64_t>& again);
  void end_epoch();
  void close_epoch(const OwnerStats& now);
  uint64_t last_lease() const { return std::max(train_book_.last_lease(), eval_book_.last_lease()); }
  void begin_evaluation();
  void end_evaluation();
  void measure_pace();
  void limit_evaluation();
  Cursor cursor() const;
  bool works() const;
  void keep_time();
  void save_or_go_on();
  bool is_last() const;

  // --- the end (job_end.cc) ----------------------------------------------------------------------
  void stop(const std::string& why);
  void finish();
  std::set<uint64_t> not_waited_for() const;
  void close();
  void fail_job(const Error& why);
  void over();
  void tell_owners(bool ok, const std::string& message, std::chrono::seconds timeout);
  void refuse_joins(const Error& why);
  bool waits_for_workers() const;

  std::shared_ptr<const JobConfig> config_;
  std::shared_ptr<const ToldModel> told_model_;  // by the first worker of a job whose model comes with it
  std::vector<std::string> model_signature_;
  uint32_t local_owners_ = 0;
  bool shows_progress_ = false;
  bool clips_by_norm_ = false;  // each commit needs the norms of its gradients

  Time now_;                     // of the event at hand
  std::vector<Effect> effects_;  // of the event at hand
  Phase phase_ = Phase::kGathering;
  std::optional<Error> error_;  // once failed

  Membership members_;
  Orders orders_;
  std::vector<std::string> numeric_settings_;  // of the first worker
  Time last_tick_;
  uint32_t wanted_workers_;
  Time alone_since_;  // without any worker, while training or evaluating
  WaitingList waiting_joins_, waiting_leases_, waiting_owners_;
  // Of workers with a window: requests for leases, and to begin the work on one.
  WaitingList waiting_draws_, waiting_begins_;
  std::map<uint64_t, Event::Begin> begins_;  // of those that wait to begin, by incarnation
  Time found_away_;                          // when a worker was last found not to draw its stripe
  bool leases_ahead_ = false;                // a worker has joined that has a window
  // Bounded: of those that wait for a lease, the ones before `clocked` have a clock, and the ones before
  // `until` had no room when the slowest clock was what it is now.
  struct Served {
    WaitingList::Place clocked = 0, until = 0;
    uint64_t slowest = 0;
  };
  Served served_;

  std::vector<Place> places_;  // by owner number
  std::deque<Applicant> applicants_;
  std::map<uint64_t, Error> turned_away_;  // owners that could not be reached, until they have heard why
  Reply::Addresses addresses_;             // of their holders; null: to be made again
  uint32_t map_version_ = 1;               // raised with each owner that takes the place of a lost one
  bool paused_ = false;                    // nothing is leased: an owner is away, or not all know the new map
  bool save_again_ = false;                // save_or_go_on() runs again once all owners are there
  Questions questions_;

  Time deadline_;                     // of an ending or failed job
  std::set<uint64_t> told_;           // workers that know of the failure
  std::map<uint64_t, Time> hung_up_;  // workers that ended their connection, and since when it has been so
  size_t owners_to_tell_ = 0;         // of the end

  uint32_t epoch_ = 0;
  Cursor begin_;  // where the job begins, while preparing
  LeaseBook train_book_, eval_book_;
  std::vector<Partial> partial_;  // of a stopped async epoch
  VersionWindow window_;          // sync
  Clocks clocks_;                 // bounded
  LeaseDeadlines deadlines_;
  std::map<uint64_t, Time> quiet_;  // workers that neither compute nor ask for anything, and since when
  bool committing_ = false;
  bool stats_pending_ = false;
  bool saves_ = true;       // at its end
  bool last_save_ = false;  // after the save that is under way the job ends
  std::optional<WantedCheckpoint> checkpoint_;
  LastCheckpoint last_checkpoint_;
  TimeLeft time_left_;
  EpochSums sums_;
  bool trained_any_ = false;  // a minibatch with examples, in this run
  Time start_;
  uint64_t finished_ = 0;          // minibatches, of training and evaluations
  uint64_t trained_examples_ = 0;  // in this run
  static constexpr double kPaceSeconds = 10;
  Rate training_pace_{kPaceSeconds}, evaluation_pace_{kPaceSeconds};  // examples
  std::optional<Status::Evaluation> evaluation_;
  uint64_t owners_lost_ = 0;
  Time evaluation_start_;
  uint64_t evaluated_examples_ = 0;
  uint64_t counted_ = 0;  // minibatches of the evaluation that are summed up, in order
  OwnerStats stats_;      // the latest
  Report report_;
};

}  // namespace embers
