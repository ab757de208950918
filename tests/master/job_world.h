#pragma once

// JobState under random events: a world of workers and owners that come, go, fall silent, repeat themselves
// and lie, and a judge that knows nothing of its books but sees every event and effect.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "master/state/job_state.h"

namespace embers::job_state_testing {

using Random = std::mt19937_64;

inline constexpr size_t kMostWorkers = 5;
// Few such minibatches of an evaluation are under way at once.
inline constexpr uint32_t kHugeBatch = 1u << 20;

inline uint64_t examples_of(uint64_t minibatch) { return 1 + minibatch % 7; }

inline constexpr const char* kOtherNumbers = "threads = 2";  // of workers that are refused

struct Options {
  uint64_t seed = 0;
  uint64_t chaos = 0;  // steps in which anything may happen; then all goes well
  std::shared_ptr<const JobConfig> config;
  Cursor begin;
  bool hangs = false;  // all workers do so in the end, though all else goes well
  // Somebody wants checkpoints. Then workers with a window never compute what has not begun.
  bool checkpoints = false;
};

Options random_options(uint64_t seed);

// An owner, as its process and its journal know it.
struct Owner {
  uint64_t incarnation = 0;  // of the process; 0: none
  uint64_t died_as = 0;      // the one before, if nobody told the master of its end
  Event::Join join;          // with which it joined
  uint64_t link = 0;
  bool away = false;   // no request of it reaches the master
  uint32_t map = 0;    // version of the owner map that it knows
  bool stale = false;  // its journal lost something
  std::set<uint64_t> fenced;
  uint64_t version = 0, examples = 0, minibatches = 0;
  std::map<uint32_t, std::map<uint64_t, uint64_t>> applied;  // epoch, minibatch: examples
  std::set<std::pair<uint32_t, uint64_t>> staged;            // sync: epoch, minibatch
};

struct Grant {
  bool evaluation = false;
  uint32_t epoch = 0;
  uint64_t version = 0, lease = 0, minibatch = 0;
  uint32_t attempt = 0;
  std::set<size_t> pushed;  // owners
  bool begun = false;       // of a worker with a window
};

struct Peer {
  uint64_t link = 0, incarnation = 0;
  Ticket join = 0, lease = 0, orders = 0, begin = 0;
  uint64_t beginning = 0;  // the lease of that
  Time orders_since;
  uint64_t received = 0;  // the last lease
  uint64_t order = 0;     // the last one that was received
  bool drains = false;    // was told to
  Event::Join joined;     // with which it joined
  bool away = false;      // no request or answer gets through to or from the master
  bool noticed = false;   // by the master
  bool unheard = false;   // a lease was lost on its way
  bool silent = false, gone = false, left = false;
  bool hangs = false;  // is alive, but finishes nothing
  bool asks = true;    // for work
  std::vector<Grant> grants;
  Time since;  // of the work on the first of them
};

// The members of one job, and the judge of what its state does. Every step is decided by the seed.
class World {
 public:
  World(const Options& options, bool record)
      : options_(options),
        config_(*options.config),
        random_(options.seed * 7919 + 1),
        record_(record),
        owners_(config_.shards),
        state_(options.config, 0, true, now_) {}

  // Plays the job to its end.
  void play();

  uint64_t events() const { return events_; }
  const std::vector<std::pair<Event, std::string>>& log() const { return log_; }
  bool failed() const { return state_.error().has_value(); }
  bool all_were_late() const;
  std::set<std::string> seen;  // what happened at all

 private:
  bool going() const { return state_.phase() != Phase::kOver && !testing::Test::HasFailure(); }
  std::string where() const;
  uint64_t pick(uint64_t from, uint64_t to) { return from + random_() % (to - from + 1); }
  bool chance(uint64_t in) { return random_() % in == 0; }
  bool sync() const { return config_.job.training.mode == job::Mode::kSync; }

  // --- what happens (job_world.cc) ---------------------------------------------------------------

  Ticket ticket() { return tickets_.insert(++last_ticket_), last_ticket_; }

  void give(decltype(Event::what) what);
  void chaos();
  void notice_or_come_back();
  void notice(Peer& p);
  // Over another connection, which asks again what has no answer.
  void come_back(Peer& p);
  void come_back(Owner& o);
  void join_again(Peer& p);
  void fair();
  void fair_step(uint64_t what);
  size_t workers() const;
  Peer* somebody();
  void join_worker(bool differs);
  void join_owner();
  bool is_connecting(const Event::Join& e) const;
  void ask_for_orders(Peer& p);
  void leave(Peer& p);
  // Somebody scales, drains or stops the job, perhaps in a way that makes no sense.
  void steer();
  void want_a_checkpoint();
  void ask_for_work(Peer& p);
  void ask_to_begin(Peer& p, const Grant& g);
  // The master learns that what it leased last was lost on its way: it leases that again.
  void take_back_lost(Peer& p);

  // Pushes a minibatch to owners and says that it is done, or gives it back.
  void work(Peer& p);
  void push(uint64_t incarnation, Grant& g, size_t o);
  // The judge: is it accepted exactly if its worker still holds it, or another one has been leased it
  // because this one was late, and has not finished it either?
  void tell_done(const Event::Done& e, const Grant& g);
  // A message that arrives twice changes nothing the second time.
  void repeat();
  void lie();
  void lose_someone();
  void lose_an_owner();
  void rare();
  void tick();
  // Connections, files, metrics.
  void finish_work(bool may_fail);
  // The sums of an evaluation grow in the order of its minibatches.
  void sum_up(bool may_fail);
  void answer_a_question();
  OwnerAnswer reply(Owner& o, const Question::Fence& q);
  OwnerAnswer reply(Owner& o, const Question::NewMap& q);
  OwnerAnswer reply(Owner&, const Question::Norms&) { return storage::SquareSums(); }
  OwnerAnswer reply(Owner& o, const Commit& commit);
  OwnerAnswer reply(Owner& o, const Question::Stats& q);

  // --- the judge (job_judge.cc) ------------------------------------------------------------------

  struct Holder {
    uint64_t worker, lease;
  };
  struct Book {
    std::map<uint64_t, Holder> held;
    std::set<std::pair<uint64_t, uint64_t>> late;  // minibatch, lease: another one has it, too
    std::set<uint64_t> again;                      // given back
    std::map<uint64_t, uint32_t> done;             // with the attempt that was accepted
    std::set<std::pair<uint64_t, uint32_t>> attempts;
    std::map<uint64_t, uint64_t> workers;  // by lease
    void give_up(uint64_t worker) {
      std::erase_if(held, [&](const auto& h) {
        if (h.second.worker != worker) return false;
        again.insert(h.first);
        return true;
      });
    }
  };

  void settle_ticket(Ticket t);
  void see(const Effect::Answer& e);
  void see(const Effect::Refuse& e);
  void grant(uint64_t worker, const Reply::Lease& lease);
  // The master has noticed that it is, or may take it for late with what it has never heard of.
  bool is_away(uint64_t worker) const;

  // Whether its work has taken longer than the setting, or the least that is ever found out.
  bool is_late(uint64_t worker) const;
  // Else nothing is leased, and nothing is saved.
  void all_owners_are_there();
  void see(const Effect::Say& e);
  void see(const Effect::ShowProgress&) {}
  // The arrows of master.h's picture.
  void see(const Effect::Entered& e);
  bool done_before(uint64_t m) const {  // the run that this one goes on from
    return epoch_ == options_.begin.epoch && m < options_.begin.next &&
           std::ranges::count(options_.begin.again, m) == 0;
  }
  void end_epoch();
  bool stopped() const { return !state_.report().stopped_by.empty(); }
  void see(const Effect::Adopt&) {}
  void see(const Effect::Connect& e);
  void see(const Effect::Drop& e);
  void see(const Effect::Ask& e);
  void see(const Effect::Tell&) { ++tells_; }
  void see(const Effect::Prepare& e) { work_ = e; }
  void see(const Effect::CountTrained&) { ++counted_; }
  void see(const Effect::CountEvaluated& e);
  void see(const Effect::Score& e);
  // A resumed job does what this cursor says is not done: all that is not done must be there.
  void see(const Effect::Save& e);
  void see(const Effect::Checkpoint& e);
  void check_cursor(const Cursor& at);
  void finish_checkpoint(bool may_fail);
  void check_members();
  void check_memory();
  void check_wanted();
  bool is_draining(uint64_t worker) const;
  void check_time_left();

  const Options options_;
  const JobConfig& config_;
  Random random_;
  const bool record_;
  Time now_{std::chrono::hours(1)};
  std::vector<Owner> owners_;
  std::deque<Peer> peers_;
  JobState state_;
  std::vector<std::pair<Event, std::string>> log_;  // events, and the effects of each

  uint64_t events_ = 0, last_link_ = 0, last_token_ = 0;
  std::map<std::string, Event::Join> owner_joins_;  // by endpoint
  Ticket last_ticket_ = 0;
  Ticket last_refused_ = 0;
  std::set<Ticket> tickets_, owner_tickets_;
  std::map<Ticket, uint64_t> lease_tickets_;
  std::set<uint64_t> passed_over_;  // minibatches of the epoch that were never leased, though a later one was
  std::vector<Effect::Ask> asks_;
  std::deque<Effect::Connect> connects_;
  std::optional<std::variant<Effect::Prepare, Effect::Save, Effect::Score>> work_;
  std::optional<Effect::Checkpoint> writing_;
  uint64_t wish_ = 0;  // the last one that the job took on
  Ticket wish_ticket_ = 0;
  size_t tells_ = 0;
  std::set<uint64_t> lost_;  // workers that not every owner has fenced
  std::set<uint64_t> late_when_lost_;
  std::deque<Event::Done> past_;
  bool saves_nothing_ = false;  // was told so

  Phase phase_ = Phase::kGathering;
  uint32_t epoch_ = 0;
  Book train_, eval_;
  std::map<uint64_t, uint64_t> versions_;    // of the epoch: minibatch, version
  std::map<uint64_t, std::string> commits_;  // by version
  std::set<uint64_t> evaluated_, summed_up_;
  std::deque<uint64_t> to_count_;  // of the evaluation: accepted, not summed up yet
  uint64_t first_not_summed_up_ = 0;
  std::optional<bool> expected_accepted_;  // none: either is right
  Ticket done_ = 0;
  int counted_ = 0;
};

}  // namespace embers::job_state_testing
