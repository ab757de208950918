// JobState under random events: a world of workers and owners that come, go, fall silent, repeat themselves
// and lie, and a judge that knows nothing of its books but sees every event and effect.
#include "master/state/job_state.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "tests/support/expect_error.h"

namespace embers::job_state_testing {
namespace {

using testing_support::expect_error;
using Random = std::mt19937_64;

// --- texts ---------------------------------------------------------------------------------------

std::string text(const Commit& c) {
  std::string out = fmt::format("commit {}:", c.version);
  for (const auto& p : c.parts) out += fmt::format(" {}.{}*{}", p.minibatch, p.attempt, p.weight);
  for (const auto& [variable, norm] : c.norms) out += fmt::format(" norm {}={}", variable.table, norm);
  return out;
}
std::string text(const Question::Fence& q) { return fmt::format("fence {}", q.incarnation); }
std::string text(const Question::NewMap& q) { return fmt::format("map {}", q.version); }
std::string text(const Question::Norms& q) { return "norms of " + text(q.commit); }
std::string text(const Question::Stats& q) { return fmt::format("stats {} {}", q.epoch, q.minibatches); }

std::string text(const Reply::Join& r) {
  return fmt::format("join {} {} {} {} {}", r.incarnation, r.number, r.map_version, r.takes_over,
                     r.owners.size());
}
std::string text(const Reply::Lease& r) {
  std::string out =
      fmt::format("lease {} {} {} {}:", static_cast<int>(r.kind), r.epoch, r.version, r.lease.id);
  for (const auto& p : r.lease.parts) out += fmt::format(" {}.{}", p.minibatch, p.attempt);
  return out;
}
std::string text(const Reply::Done& r) { return fmt::format("done {}", r.accepted); }
std::string text(const Reply::Heartbeat& r) { return fmt::format("beat {}", r.map_version); }
std::string text(const Reply::Owners& r) {
  return fmt::format("owners {} {}", r.map_version, r.owners.size());
}
std::string text(const Order& r) {
  return fmt::format("order {} {} {}", r.number, static_cast<int>(r.what), r.value);
}
std::string text(const Reply::Empty&) { return "empty"; }

std::string text(const Cursor& c) {
  return fmt::format("{} {} {} {} {} {} {}", c.epoch, c.next, c.again, c.version, c.examples, c.minibatches,
                     c.partial.size());
}
std::string text(const Effect::Answer& e) {
  return fmt::format("answer {} {}", e.ticket, std::visit([](const auto& r) { return text(r); }, e.reply));
}
std::string text(const Effect::Refuse& e) { return fmt::format("refuse {} {}", e.ticket, e.error.what()); }
std::string text(const Effect::Say& e) { return "say " + e.line; }
std::string text(const Effect::ShowProgress& e) {
  return fmt::format("progress {} {} {}", e.progress.epoch, e.progress.minibatches, e.progress.examples);
}
std::string text(const Effect::Entered& e) { return fmt::format("entered {}", name(e.phase)); }
std::string text(const Effect::Connect& e) { return fmt::format("connect {} {}", e.number, e.incarnation); }
std::string text(const Effect::Drop& e) { return fmt::format("drop {}", e.incarnation); }
std::string text(const Effect::Ask& e) {
  return fmt::format("ask {} {} {} {}", e.number, e.incarnation, e.id,
                     std::visit([](const auto& q) { return text(q); }, e.question));
}
std::string text(const Effect::Tell& e) { return fmt::format("tell {} {} {}", e.number, e.ok, e.message); }
std::string text(const Effect::Prepare& e) { return "prepare " + text(e.here); }
std::string text(const Effect::CountTrained&) { return "trained"; }
std::string text(const Effect::CountEvaluated& e) { return fmt::format("evaluated {}", e.minibatch); }
std::string text(const Effect::Score&) { return "score"; }
std::string text(const Effect::Save& e) {
  return fmt::format("save {} {} {}", e.checkpoint, e.rows, text(e.at));
}
std::string text(const Effect& e) {
  return std::visit([](const auto& what) { return text(what); }, e.what);
}

// --- the job -------------------------------------------------------------------------------------

constexpr size_t kMostWorkers = 5;
constexpr uint32_t kHugeBatch = 1u << 20;  // few such minibatches of an evaluation are under way at once

uint64_t examples_of(uint64_t minibatch) { return 1 + minibatch % 7; }

constexpr const char* kOtherNumbers = "threads = 2";  // of workers that are refused

struct Options {
  uint64_t seed = 0;
  uint64_t chaos = 0;  // steps in which anything may happen; then all goes well
  std::shared_ptr<const JobConfig> config;
  Cursor begin;
  bool hangs = false;  // all workers do so in the end, though all else goes well
};

Options random_options(uint64_t seed) {
  Random random(seed);
  const auto pick = [&](uint64_t from, uint64_t to) { return from + random() % (to - from + 1); };
  auto config = std::make_shared<JobConfig>();
  TableSpec table;
  table.name = "a";
  table.dim = 1;
  table.initializer = {"zeros", {}};
  table.update_rule = {"sgd", {{"learning_rate", 1.0}}};
  if (pick(0, 2) == 0) table.update_rule.params["clipnorm"] = 1;
  config->model.tables = {table};
  job::Job& job = config->job;
  const job::Mode modes[] = {job::Mode::kAsync, job::Mode::kBounded, job::Mode::kSync};
  job.training.mode = modes[pick(0, 2)];
  job.training.epochs = static_cast<uint32_t>(pick(1, 3));
  job.training.grads_to_wait = static_cast<uint32_t>(pick(1, 4));
  job.training.minibatches_per_lease = static_cast<uint32_t>(pick(1, 5));
  job.training.staleness_bound = static_cast<uint32_t>(pick(0, 3));
  if (pick(0, 1)) job.training.batch_size = kHugeBatch;
  job.job.heartbeat_timeout = 4;
  job.job.worker_timeout = 60;
  if (pick(0, 1)) job.job.lease_timeout = static_cast<double>(pick(3, 10));
  job.storage.buckets = 16;
  job.storage.owner_timeout = 40;
  if (pick(0, 3) > 0) {
    job.storage.backend = "memcached";
    job.storage.journal = "journal";
  }
  config->workers = static_cast<uint32_t>(pick(1, 3));
  config->shards = static_cast<uint32_t>(pick(1, 3));
  config->train_minibatches = pick(0, 9) == 0 ? pick(0, 2) : pick(3, 60);
  config->test_minibatches = pick(0, 1) * pick(1, 40);
  config->output = pick(0, 1) ? "model" : "";
  config->save_every = static_cast<uint32_t>(pick(0, 1));
  if (pick(0, 9) == 0) config->task = JobConfig::Task::kEvaluate;
  config->settings = {"training.batch_size = 64"};
  Options options{seed, pick(50, 3000), config, {}};
  options.hangs = pick(0, 9) == 0 && job.job.lease_timeout > 0;
  if (pick(0, 3) == 0 && config->train_minibatches > 4) {  // resumed in the middle of an epoch
    config->resume = "model";
    const bool sync = job.training.mode == job::Mode::kSync;
    options.begin.next = sync ? pick(1, 3) : 4;
    if (!sync) options.begin.again = {1, 2};
    options.begin.version = sync ? 7 : 0;
  }
  return options;
}

// An owner, as its process and its journal know it.
struct Owner {
  uint64_t incarnation = 0;  // of the process; 0: none
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
};

struct Peer {
  uint64_t link = 0, incarnation = 0;
  Ticket join = 0, lease = 0, orders = 0;
  Time orders_since;
  uint64_t received = 0;  // the last lease
  Event::Join joined;     // with which it joined
  bool away = false;      // no request or answer gets through to or from the master
  bool noticed = false;   // by the master
  bool unheard = false;   // a lease was lost on its way
  bool silent = false, gone = false, left = false;
  bool hangs = false;  // is alive, but finishes nothing
  std::vector<Grant> grants;
  Time begin;  // of the work on the first of them
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
  void play() {
    for (uint64_t i = 0; i < options_.chaos && going(); ++i) chaos();
    for (int i = 0; i < 50000 && going(); ++i) fair();
    if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
    EXPECT_EQ(state_.phase(), Phase::kOver) << "stuck" << where();
    EXPECT_TRUE(tickets_.empty()) << tickets_.size() << " requests were never answered" << where();
    if (state_.error()) {
      EXPECT_NE(state_.error()->code(), ErrorCode::kInternal) << state_.error()->what() << where();
    }
  }

  uint64_t events() const { return events_; }
  const std::vector<std::pair<Event, std::string>>& log() const { return log_; }
  bool failed() const { return state_.error().has_value(); }
  bool all_were_late() const {
    return failed() &&
           std::string(state_.error()->what()).find("no other worker can compute it") != std::string::npos;
  }
  std::set<std::string> seen;  // what happened at all

 private:
  bool going() const { return state_.phase() != Phase::kOver && !testing::Test::HasFailure(); }
  std::string where() const {
    return fmt::format(" (seed {}, event {}, {})", options_.seed, events_, name(state_.phase()));
  }
  uint64_t pick(uint64_t from, uint64_t to) { return from + random_() % (to - from + 1); }
  bool chance(uint64_t in) { return random_() % in == 0; }
  bool sync() const { return config_.job.training.mode == job::Mode::kSync; }

  // --- what happens ------------------------------------------------------------------------------

  Ticket ticket() { return tickets_.insert(++last_ticket_), last_ticket_; }

  template <class E>
  void give(E e) {
    const Event event{now_, std::move(e)};
    ++events_;
    const auto effects = state_.on(event);
    std::string texts;
    for (const Effect& effect : effects) {
      if (record_) texts += text(effect) + "\n";
      std::visit([this](const auto& what) { see(what); }, effect.what);
    }
    if (record_) log_.emplace_back(event, texts);
    check_members();
    check_memory();
  }

  void chaos() {
    switch (pick(0, 39)) {
      case 0:
        return join_worker(chance(8));
      case 1:
        return join_owner();
      case 2:
        return lose_someone();
      case 3:
        return lie();
      case 4:
        return repeat();
      case 5:
        return lose_an_owner();
      case 6:
        return rare();
      case 7:
      case 8:
        return tick();
      case 9:
        return finish_work(true);
      case 10:
        return notice_or_come_back();
      default:
        return fair_step(pick(0, 9));
    }
  }

  void notice_or_come_back() {
    for (Owner& o : owners_)
      if (o.incarnation != 0 && o.away && chance(2)) come_back(o);
    for (Peer& p : peers_)
      if (p.away && !p.gone) return chance(2) ? notice(p) : come_back(p);
  }

  void notice(Peer& p) {
    if (!std::exchange(p.noticed, true)) give(Event::LinkDown{p.link, "the connection ended"});
  }

  // Over another connection, which asks again what has no answer.
  void come_back(Peer& p) {
    notice(p);
    if (p.gone) return;
    p.away = p.noticed = false;
    p.link = ++last_link_;
    if (p.join != 0) return join_again(p);
    give(Event::Reconnected{p.incarnation, p.link});
    seen.insert("came back");
  }
  void come_back(Owner& o) {
    o.away = false;
    o.link = ++last_link_;
    if (chance(2)) return give(Event::Reconnected{o.incarnation, o.link});
    o.join.ticket = ticket();
    o.join.link = o.link;
    owner_tickets_.insert(o.join.ticket);
    give(o.join);
    seen.insert("an owner joined again");
  }
  void join_again(Peer& p) {
    Event::Join e = p.joined;
    e.ticket = p.join = ticket();
    e.link = p.link;
    give(e);
    seen.insert("joined again");
  }

  void fair() {
    if (workers() == 0 || state_.members().workers() < config_.workers) join_worker(false);
    join_owner();
    for (Peer& p : peers_) {
      p.silent = false;
      p.hangs = options_.hangs;
    }
    notice_or_come_back();
    finish_work(false);
    if (chance(20)) tick();
    fair_step(pick(0, 9));
  }

  void fair_step(uint64_t what) {
    if (what < 4) return answer_a_question();
    Peer* const p = somebody();
    if (p == nullptr) return;
    if (chance(10)) return ask_for_orders(*p);
    what < 6 ? ask_for_work(*p) : work(*p);
  }

  size_t workers() const {
    return std::count_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.gone; });
  }

  Peer* somebody() {
    if (peers_.empty()) return nullptr;
    Peer& p = peers_[random_() % peers_.size()];
    return p.gone || p.away || p.incarnation == 0 || p.join != 0 ? nullptr : &p;
  }

  void join_worker(bool differs) {
    if (workers() >= kMostWorkers) return;
    Event::Join e;
    e.ticket = ticket();
    e.link = ++last_link_;
    e.host = "here";
    e.model = signature(config_.model);
    e.settings = {differs ? "training.batch_size = 32" : "training.batch_size = 64"};
    e.numeric = {differs ? kOtherNumbers : "threads = 1"};
    e.token = chance(2) ? ++last_token_ : 0;
    Peer peer;
    peer.link = e.link;
    peer.join = e.ticket;
    peer.joined = e;
    peers_.push_back(peer);
    give(e);
    if (differs) {
      EXPECT_EQ(last_refused_, e.ticket) << "a worker with other settings was let in" << where();
    }
  }

  void join_owner() {
    if (std::none_of(owners_.begin(), owners_.end(), [](const Owner& o) { return o.incarnation == 0; }))
      return;
    Event::Join e;
    e.ticket = ticket();
    e.link = ++last_link_;
    e.owner = true;
    e.host = "there";
    e.token = chance(2) ? ++last_token_ : 0;
    owner_tickets_.insert(e.ticket);
    connecting_ = e;
    give(e);
  }

  void ask_for_orders(Peer& p) {
    if (p.orders != 0 && !chance(50)) return;
    const Ticket asked = ticket(), earlier = std::exchange(p.orders, asked);
    p.orders_since = now_;
    give(Event::Orders{asked, p.incarnation, chance(20), 0});  // seldom one that was never given
    EXPECT_TRUE(last_refused_ == asked || !tickets_.contains(earlier))
        << "an earlier request still waits for orders" << where();
  }

  void ask_for_work(Peer& p) {
    if (p.lease != 0 && !chance(50)) return;  // seldom once more
    const Ticket earlier = std::exchange(p.lease, ticket());
    lease_tickets_[p.lease] = p.incarnation;
    if (p.joined.token != 0) take_back_lost(p);
    give(Event::Lease{p.lease, p.incarnation, p.received});
    EXPECT_FALSE(tickets_.contains(earlier)) << "an earlier request still waits for work" << where();
  }

  // The master learns that what it leased last was lost on its way: it leases that again.
  void take_back_lost(Peer& p) {
    if (state_.error()) return;
    p.unheard = false;
    for (Book* book : {&train_, &eval_}) {
      std::erase_if(book->late, [&](const auto& late) {
        return late.second > p.received && book->workers[late.second] == p.incarnation;
      });
      std::erase_if(book->held, [&](const auto& h) {
        if (h.second.worker != p.incarnation || h.second.lease <= p.received) return false;
        book->again.insert(h.first);
        seen.insert("an answer was lost");
        return true;
      });
    }
  }

  // Pushes a minibatch to owners and says that it is done, or gives it back.
  void work(Peer& p) {
    if (p.grants.empty() || p.hangs) return;
    const size_t i = random_() % p.grants.size();
    Grant& g = p.grants[i];
    bool back = chance(40);
    if (!g.evaluation && !back) {
      for (size_t o = 0; o < owners_.size(); ++o) {
        if (chance(30)) return;  // goes on later
        if (g.pushed.contains(o)) continue;
        if (owners_[o].incarnation == 0 || (sync() && owners_[o].version != g.version)) {
          back = true;
          break;
        }
        push(p.incarnation, g, o);
      }
    }
    Event::Done e;
    e.ticket = ticket();
    e.incarnation = p.incarnation;
    e.lease = g.lease;
    e.minibatch = g.minibatch;
    e.attempt = g.attempt;
    e.returned = back;
    e.examples = examples_of(g.minibatch);
    e.loss_sum = 1;
    const Grant grant = g;
    p.grants.erase(p.grants.begin() + static_cast<std::ptrdiff_t>(i));
    p.begin = now_;
    tell_done(e, grant);
    past_.push_back(e);
    if (past_.size() > 20) past_.pop_front();
  }

  void push(uint64_t incarnation, Grant& g, size_t o) {
    Owner& owner = owners_[o];
    if (owner.fenced.contains(incarnation)) return;
    g.pushed.insert(o);
    if (sync()) {
      owner.staged.insert({g.epoch, g.minibatch});  // the first attempt stays
    } else if (owner.applied[g.epoch].emplace(g.minibatch, examples_of(g.minibatch)).second) {
      ++owner.version;
      ++owner.minibatches;
      owner.examples += examples_of(g.minibatch);
    }
  }

  // The judge: is it accepted exactly if its worker still holds it, or another one has been leased it
  // because this one was late, and has not finished it either?
  void tell_done(const Event::Done& e, const Grant& g) {
    auto& book = g.evaluation ? eval_ : train_;
    const auto held = book.held.find(g.minibatch);
    const bool holds = held != book.held.end() && held->second.lease == g.lease;
    const bool late = book.late.erase({g.minibatch, g.lease}) > 0 && !book.done.contains(g.minibatch);
    const bool here =
        (g.evaluation ? state_.phase() == Phase::kEvaluating : state_.phase() == Phase::kTraining) &&
        (holds || late) && !state_.error();
    if (here && (holds || !e.returned)) {
      if (e.returned)
        book.again.insert(g.minibatch);
      else
        book.done.insert({g.minibatch, g.attempt});
      if (!holds && held != book.held.end()) book.late.insert({g.minibatch, held->second.lease});
      if (held != book.held.end()) book.held.erase(held);
      if (late && !e.returned) seen.insert("first though late");
    }
    // It may have been late without anybody having been leased it.
    expected_accepted_ = e.returned && here ? std::nullopt : std::optional(here);
    counted_ = 0;
    done_ = e.ticket;
    give(e);
    if (here && !e.returned) {
      EXPECT_EQ(counted_, 1) << "an accepted minibatch counts once" << where();
    }
    done_ = 0;
  }

  // A message that arrives twice changes nothing the second time.
  void repeat() {
    if (past_.empty()) return;
    Event::Done e = past_[random_() % past_.size()];
    e.ticket = ticket();
    expected_accepted_ = false;
    counted_ = 0;
    done_ = e.ticket;
    give(e);
    EXPECT_EQ(counted_, 0) << "a repeated message counted again" << where();
    done_ = 0;
    seen.insert("repeated");
  }

  void lie() {
    const uint64_t incarnation = chance(3) ? 1000000 + pick(0, 9) : pick(0, 20);
    const bool is_member = state_.members().find(incarnation) != nullptr;
    switch (pick(0, 4)) {
      case 0: {
        if (is_member) return;
        const Ticket t = ticket();
        give(Event::Lease{t, incarnation});
        return;
      }
      case 1: {
        Event::Done e;
        e.ticket = ticket();
        e.incarnation = incarnation;
        e.lease = 1000000 + pick(0, 9);
        e.minibatch = pick(0, 70);
        e.attempt = static_cast<uint32_t>(pick(0, 3));
        expected_accepted_ = false;
        done_ = e.ticket;
        give(e);
        done_ = 0;
        return;
      }
      case 2:
        return give(Event::Heartbeat{ticket(), 0, chance(2)});
      case 3:
        return give(Event::Owners{ticket(), incarnation, static_cast<uint32_t>(pick(0, 3))});
      case 4:
        return give(Event::OwnerAnswered{static_cast<uint32_t>(random_() % owners_.size()), 999, pick(1, 9),
                                         std::monostate()});
    }
  }

  void lose_someone() {
    if (peers_.empty()) return;
    Peer& p = peers_[random_() % peers_.size()];
    if (p.gone) return;
    switch (pick(0, 7)) {
      case 0:
        if (p.incarnation == 0 || p.join != 0) return;
        p.left = true;
        train_.give_up(p.incarnation);
        eval_.give_up(p.incarnation);
        seen.insert("left");
        return give(Event::Leave{ticket(), p.incarnation});
      case 1:
      case 2:
        if (p.joined.token != 0) return std::exchange(p.away, true) || chance(2) ? void() : notice(p);
        seen.insert("link down");
        return give(Event::LinkDown{p.link, "the connection ended"});
      case 3:
      case 4:
        p.silent = true;
        return;
      default:
        p.hangs = true;
    }
  }

  void lose_an_owner() {
    if (!chance(config_.job.storage.journal.empty() ? 200 : 6)) return;
    const auto number = static_cast<uint32_t>(random_() % owners_.size());
    Owner& o = owners_[number];
    if (o.incarnation == 0) return;
    const bool down = chance(2);
    if (!down && o.join.token != 0) {
      o.away = true;
      return give(Event::LinkDown{o.link, "the connection ended"});
    }
    const uint64_t incarnation = std::exchange(o.incarnation, 0);
    seen.insert("owner lost");
    if (sync() && chance(20) && commits_.size() > 1 && phase_ == Phase::kTraining) {
      o.version = commits_.rbegin()->first - 2;  // the latest may not be complete, but the one before is
      o.stale = true;
    }
    if (down) return give(Event::OwnerDown{number, incarnation, "the connection ended"});
    give(Event::LinkDown{o.link, "the connection ended"});
  }

  void rare() {
    if (!chance(30)) return;
    switch (pick(0, 3)) {
      case 0:
        return give(Event::Stop{"SIGINT"});
      case 1:
        now_ += std::chrono::seconds(30);
        return;  // suspended
      case 2:
        if (Peer* p = somebody(); p && chance(4))
          give(Event::Fail{ticket(), p->incarnation, Error(ErrorCode::kInvalid, "adult.data:7: 'x'")});
        return;
      case 3:
        for (Owner& o : owners_)
          if (o.incarnation != 0 && chance(4)) give(Event::Heartbeat{ticket(), o.incarnation, true});
        return;
    }
  }

  void tick() {
    now_ += std::chrono::milliseconds(pick(500, 1200));
    for (size_t i = 0; i < peers_.size(); ++i)
      if (!peers_[i].silent && !peers_[i].away && !peers_[i].gone && peers_[i].incarnation != 0 &&
          peers_[i].join == 0)
        give(Event::Heartbeat{ticket(), peers_[i].incarnation, false});
    for (const Owner& o : owners_)
      if (o.incarnation != 0 && !o.away) give(Event::Heartbeat{ticket(), o.incarnation, false});
    give(Event::Tick{});
    for (const Peer& p : peers_)
      if (p.orders != 0 && p.orders_since < now_ - std::chrono::seconds(10))
        ADD_FAILURE() << "a member heard nothing for more than ten seconds" << where();
  }

  // Connections, files, metrics.
  void finish_work(bool may_fail) {
    if (!connects_.empty()) {
      const Effect::Connect c = connects_.front();
      connects_.pop_front();
      if (may_fail && chance(4)) {
        if (owners_.at(c.number).incarnation == c.incarnation) owners_.at(c.number).incarnation = 0;
        return give(Event::NotConnected{c.incarnation, Error(ErrorCode::kUnreachable, "nobody listens")});
      }
      return give(Event::Connected{c.incarnation});
    }
    if (tells_ > 0) {
      --tells_;
      return give(Event::OwnerTold{});
    }
    if (!to_count_.empty() && (!work_ || chance(2))) return sum_up(may_fail);
    if (!work_ || (std::holds_alternative<Effect::Score>(*work_) && !to_count_.empty())) return;
    const auto work = *std::exchange(work_, std::nullopt);
    if (may_fail && chance(60) && !std::holds_alternative<Effect::Score>(work))
      return give(Event::WorkFailed{Error(ErrorCode::kDisk, "the disk is full")});
    if (std::holds_alternative<Effect::Save>(work)) {
      const auto& save = std::get<Effect::Save>(work);
      const bool cut =
          std::any_of(owners_.begin(), owners_.end(), [](const Owner& o) { return o.incarnation == 0; });
      if (cut && save.checkpoint)
        return give(Event::WorkFailed{Error(ErrorCode::kUnavailable, "it is gone")});
      return give(Event::Saved{save.checkpoint});
    }
    if (std::holds_alternative<Effect::Score>(work)) return give(Event::Scored{0.5, 0.5, 0.5, 10});
    for (Owner& o : owners_) {
      o.version = options_.begin.version;
      for (uint64_t m = 0; m < options_.begin.next; ++m)
        if (std::ranges::count(options_.begin.again, m) == 0) o.applied[1].emplace(m, 0);
    }
    give(Event::Prepared{options_.begin});
  }

  // The sums of an evaluation grow in the order of its minibatches.
  void sum_up(bool may_fail) {
    if (may_fail && chance(60))
      return give(Event::EvaluationFailed{Error(ErrorCode::kDisk, "no space left")});
    summed_up_.insert(to_count_.front());
    to_count_.pop_front();
    while (summed_up_.contains(first_not_summed_up_)) ++first_not_summed_up_;
    give(Event::Counted{first_not_summed_up_});
  }

  void answer_a_question() {
    if (asks_.empty()) return;
    const size_t i = random_() % asks_.size();
    const Effect::Ask ask = asks_[i];
    asks_.erase(asks_.begin() + static_cast<std::ptrdiff_t>(i));
    Owner& o = owners_.at(ask.number);
    if (o.incarnation != ask.incarnation)
      return give(
          Event::OwnerFailed{ask.number, ask.incarnation, ask.id, Error(ErrorCode::kUnavailable, "gone")});
    OwnerAnswer answer = std::visit([&](const auto& q) { return reply(o, q); }, ask.question);
    if (testing::Test::HasFailure()) return;
    give(Event::OwnerAnswered{ask.number, ask.incarnation, ask.id, std::move(answer)});
    if (!o.stale) return;
    EXPECT_TRUE(state_.error() || o.incarnation == 0) << "an owner that lost a version was taken" << where();
    seen.insert("journal lost something");
  }

  OwnerAnswer reply(Owner& o, const Question::Fence& q) {
    return o.fenced.insert(q.incarnation), std::monostate();
  }
  OwnerAnswer reply(Owner& o, const Question::NewMap& q) {
    return o.map = std::max(o.map, q.version), std::monostate();
  }
  OwnerAnswer reply(Owner&, const Question::Norms&) { return storage::SquareSums(); }
  OwnerAnswer reply(Owner& o, const Commit& commit) {
    if (commit.version == o.version) return std::monostate();  // asked twice
    EXPECT_EQ(commit.version, o.version + 1) << where();
    for (const auto& part : commit.parts) {
      EXPECT_TRUE(o.staged.contains({epoch_, part.minibatch}))
          << "minibatch " << part.minibatch << " is committed, but is not at every owner" << where();
      o.examples += examples_of(part.minibatch);
      ++o.minibatches;
    }
    o.version = commit.version;
    return std::monostate();
  }
  OwnerAnswer reply(Owner& o, const Question::Stats& q) {
    OwnerCounts counts;
    counts.sums.version = o.version;
    counts.sums.examples = o.examples;
    counts.sums.minibatches = o.minibatches;
    for (const uint64_t m : q.minibatches)
      if (const auto found = o.applied[q.epoch].find(m); found != o.applied[q.epoch].end())
        counts.applied.push_back({m, found->second});
    return counts;
  }

  // --- the judge ---------------------------------------------------------------------------------

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

  void settle_ticket(Ticket t) {
    EXPECT_EQ(tickets_.erase(t), 1) << "answered twice, or never asked" << where();
    for (Peer& p : peers_) {
      if (p.lease == t) p.lease = 0;
      if (p.orders == t) p.orders = 0;
    }
  }

  void see(const Effect::Answer& e) {
    settle_ticket(e.ticket);
    if (const auto* joined = std::get_if<Reply::Join>(&e.reply)) {
      if (owner_tickets_.erase(e.ticket) > 0) {
        owners_.at(joined->number).map = joined->map_version;
        return;
      }
      for (Peer& p : peers_)
        if (p.join == e.ticket) {
          if (!p.away) p.join = 0;
          p.incarnation = joined->incarnation;
        }
    } else if (const auto* leased = std::get_if<Reply::Lease>(&e.reply)) {
      grant(lease_tickets_.at(e.ticket), *leased);
      lease_tickets_.erase(e.ticket);
    } else if (const auto* done = std::get_if<Reply::Done>(&e.reply)) {
      EXPECT_EQ(e.ticket, done_) << where();
      if (expected_accepted_) {
        EXPECT_EQ(done->accepted, *expected_accepted_) << where();
      }
    }
  }

  void see(const Effect::Refuse& e) {
    settle_ticket(e.ticket);
    last_refused_ = e.ticket;
    owner_tickets_.erase(e.ticket);
    lease_tickets_.erase(e.ticket);
    for (Peer& p : peers_)
      if (p.join == e.ticket) p.gone = true;
  }

  void grant(uint64_t worker, const Reply::Lease& lease) {
    if (lease.kind == Reply::Lease::Kind::kEnd) return;
    const bool evaluation = lease.kind == Reply::Lease::Kind::kEvaluate;
    Book& book = evaluation ? eval_ : train_;
    all_owners_are_there();
    for (const auto& part : lease.lease.parts) {
      const uint64_t m = part.minibatch;
      if (evaluation && config_.job.training.batch_size == kHugeBatch) {
        EXPECT_LT(m, first_not_summed_up_ + 2 * kMostWorkers) << "too many are under way" << where();
        if (m >= 4) seen.insert("evaluated on");
      }
      EXPECT_FALSE(book.done.contains(m)) << "minibatch " << m << " is done, but was leased again" << where();
      if (const auto held = book.held.find(m); held != book.held.end()) {
        if (state_.members().find(held->second.worker) != nullptr) {
          EXPECT_TRUE(is_late(held->second.worker) || is_away(held->second.worker))
              << "minibatch " << m << " has two holders" << where();
          seen.insert("leased to another one, too");
        } else {  // only once no owner takes anything from a lost worker any more, unless it was late before
          for (const Owner& o : owners_)
            EXPECT_TRUE(o.fenced.contains(held->second.worker) || is_late(held->second.worker) ||
                        late_when_lost_.contains(held->second.worker))
                << "minibatch " << m << " was leased again before its worker was fenced" << where();
          seen.insert("leased again");
        }
        book.late.insert({m, held->second.lease});
        book.held.erase(held);
      }
      EXPECT_TRUE(book.attempts.insert({m, part.attempt}).second)
          << "an attempt was granted twice" << where();
      book.again.erase(m);
      book.held[m] = {worker, lease.lease.id};
      book.workers[lease.lease.id] = worker;
      for (Peer& p : peers_)
        if (p.incarnation == worker && p.away) {
          p.unheard = true;
        } else if (p.incarnation == worker && !p.gone) {
          p.received = lease.lease.id;
          if (p.grants.empty()) p.begin = now_;
          p.grants.push_back({evaluation, lease.epoch, lease.version, lease.lease.id, m, part.attempt, {}});
        }
    }
  }

  // The master has noticed that it is, or may take it for late with what it has never heard of.
  bool is_away(uint64_t worker) const {
    return std::ranges::any_of(
        peers_, [&](const Peer& p) { return p.incarnation == worker && (p.noticed || p.unheard); });
  }

  // Whether its work has taken longer than the setting, or the least that is ever found out.
  bool is_late(uint64_t worker) const {
    const double setting = config_.job.job.lease_timeout;
    const LeaseDeadlines::Duration least =
        setting > 0 ? LeaseDeadlines::Duration(setting) : LeaseDeadlines::kLeast;
    return std::ranges::any_of(peers_, [&](const Peer& p) {
      return p.incarnation == worker && !p.grants.empty() && now_ - p.begin > least;
    });
  }

  // Else nothing is leased, and nothing is saved.
  void all_owners_are_there() {
    for (const Owner& o : owners_) {
      EXPECT_NE(o.incarnation, 0) << "an owner is away" << where();
      EXPECT_EQ(o.map, state_.map().version) << "an owner does not know the map" << where();
    }
  }

  void see(const Effect::Say& e) {
    EXPECT_EQ(e.line.find(kOtherNumbers), std::string::npos) << "a refused worker: " << e.line << where();
  }
  void see(const Effect::ShowProgress&) {}

  // The arrows of master.h's picture.
  void see(const Effect::Entered& e) {
    using enum Phase;
    static const std::set<std::pair<Phase, Phase>> arrows{
        {kGathering, kPreparing}, {kGathering, kEnding},  {kPreparing, kTraining},  {kPreparing, kEvaluating},
        {kPreparing, kSaving},    {kTraining, kSettling}, {kSettling, kEvaluating}, {kSettling, kSaving},
        {kEvaluating, kScoring},  {kEvaluating, kSaving}, {kScoring, kSaving},      {kSaving, kTraining},
        {kSaving, kEnding},       {kEnding, kClosing},    {kClosing, kOver},        {kGathering, kFailed},
        {kPreparing, kFailed},    {kTraining, kFailed},   {kSettling, kFailed},     {kEvaluating, kFailed},
        {kScoring, kFailed},      {kSaving, kFailed},     {kFailed, kOver}};
    EXPECT_TRUE(arrows.contains({phase_, e.phase})) << name(phase_) << " to " << name(e.phase) << where();
    seen.insert(name(e.phase));
    phase_ = e.phase;
    if (e.phase == kTraining) {
      train_ = {};
      ++epoch_;
      versions_.clear();
    }
    if (e.phase == kEvaluating) {
      eval_ = {};
      evaluated_.clear();
      to_count_.clear();
      summed_up_.clear();
      first_not_summed_up_ = 0;
    }
    if (e.phase == kSettling) end_epoch();
  }

  bool done_before(uint64_t m) const {  // the run that this one goes on from
    return epoch_ == options_.begin.epoch && m < options_.begin.next &&
           std::ranges::count(options_.begin.again, m) == 0;
  }

  void end_epoch() {
    if (stopped()) return;
    for (uint64_t m = 0; m < config_.train_minibatches; ++m) {
      EXPECT_NE(train_.done.contains(m), done_before(m)) << "minibatch " << m << " was dropped" << where();
      if (sync() && !done_before(m)) {
        EXPECT_EQ(versions_.count(m), 1) << "minibatch " << m << " is in no version" << where();
      }
    }
  }

  bool stopped() const { return !state_.report().stopped_by.empty(); }

  void see(const Effect::Connect& e) {
    connects_.push_back(e);
    Owner& o = owners_.at(e.number);
    EXPECT_EQ(o.incarnation, 0) << "the place was not free" << where();
    o.incarnation = e.incarnation;
    o.join = connecting_;
    o.link = connecting_.link;
    o.away = false;
  }
  void see(const Effect::Drop& e) {
    for (Owner& o : owners_)
      if (o.incarnation == e.incarnation) o.incarnation = 0;
  }

  void see(const Effect::Ask& e) {
    asks_.push_back(e);
    const auto* commit = std::get_if<Commit>(&e.question);
    if (commit == nullptr) return;
    const auto [known, is_new] = commits_.emplace(commit->version, text(*commit));
    EXPECT_EQ(known->second, text(*commit)) << "two commits make one version" << where();
    if (!is_new) return;
    for (const auto& part : commit->parts) {
      EXPECT_TRUE(versions_.emplace(part.minibatch, commit->version).second)
          << "minibatch " << part.minibatch << " is in two versions" << where();
      const auto done = train_.done.find(part.minibatch);
      EXPECT_TRUE(done != train_.done.end() && done->second == part.attempt)
          << "minibatch " << part.minibatch << " was not accepted" << where();
    }
  }

  void see(const Effect::Tell&) { ++tells_; }
  void see(const Effect::Prepare& e) { work_ = e; }
  void see(const Effect::CountTrained&) { ++counted_; }
  void see(const Effect::CountEvaluated& e) {
    ++counted_;
    EXPECT_TRUE(evaluated_.insert(e.minibatch).second) << "scored twice" << where();
    to_count_.push_back(e.minibatch);
  }
  void see(const Effect::Score& e) {
    EXPECT_EQ(evaluated_.size(), config_.test_minibatches) << "scored before the end" << where();
    work_ = e;
  }

  // A resumed job does what this cursor says is not done: all that is not done must be there.
  void see(const Effect::Save& e) {
    all_owners_are_there();
    work_ = e;
    if (epoch_ == 0 || config_.task == JobConfig::Task::kEvaluate || e.at.epoch != epoch_) return;
    for (uint64_t m = 0; m < config_.train_minibatches; ++m) {
      const bool open = m >= e.at.next || std::ranges::count(e.at.again, m) > 0;
      bool done = done_before(m) || (sync() ? versions_.contains(m) : train_.done.contains(m));
      if (!sync() && !done)
        done = std::ranges::all_of(owners_, [&](const Owner& o) {
          const auto of_epoch = o.applied.find(epoch_);
          return of_epoch != o.applied.end() && of_epoch->second.contains(m);
        });
      EXPECT_NE(open, done) << "minibatch " << m << (done ? " would be done twice" : " would be dropped")
                            << where();
    }
  }

  void check_members() {
    EXPECT_EQ(state_.phase(), phase_) << "the phase changed without a word" << where();
    for (Peer& p : peers_)
      if (p.incarnation != 0 && !p.gone && state_.members().find(p.incarnation) == nullptr) {
        if (is_late(p.incarnation) || is_away(p.incarnation)) late_when_lost_.insert(p.incarnation);
        p.gone = true;
        if (!p.left) lost_.insert(p.incarnation);
      }
    std::erase_if(lost_, [&](uint64_t worker) {
      return std::ranges::all_of(owners_, [&](const Owner& o) { return o.fenced.contains(worker); });
    });
    std::erase_if(peers_, [&](Peer& p) {
      if (!p.gone) return false;
      // What it had on its way may still arrive where it is not fenced.
      for (Grant& g : p.grants)
        if (!g.evaluation && !sync() && g.epoch == epoch_ && !p.left && phase_ == Phase::kTraining)
          for (size_t o = 0; o < owners_.size(); ++o)
            if (owners_[o].incarnation != 0 && chance(3)) push(p.incarnation, g, o);
      return true;
    });
  }

  void check_memory() {
    const JobState::Held held = state_.held();
    if (state_.phase() < Phase::kClosing) {  // then who joins again is refused, though it is a member
      EXPECT_LE(held.members, peers_.size() + owners_.size()) << where();
    }
    EXPECT_LE(held.requests, 4 * held.members) << where();
    // What a late worker holds waits to be leased again, too.
    size_t minibatches = options_.begin.again.size();
    for (const Book* b : {&train_, &eval_})
      minibatches += 2 * b->held.size() + b->late.size() + b->again.size();
    EXPECT_LE(held.minibatches, minibatches) << where();
    EXPECT_LE(held.questions, lost_.size() + 3) << where();  // fences; counts, a map, a commit
  }

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
  Event::Join connecting_;
  Ticket last_ticket_ = 0;
  Ticket last_refused_ = 0;
  std::set<Ticket> tickets_, owner_tickets_;
  std::map<Ticket, uint64_t> lease_tickets_;
  std::vector<Effect::Ask> asks_;
  std::deque<Effect::Connect> connects_;
  std::optional<std::variant<Effect::Prepare, Effect::Save, Effect::Score>> work_;
  size_t tells_ = 0;
  std::set<uint64_t> lost_;  // workers that not every owner has fenced
  std::set<uint64_t> late_when_lost_;
  std::deque<Event::Done> past_;

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

TEST(JobState, KeepsItsInvariantsThroughAMillionRandomEvents) {
  uint64_t events = 0, jobs = 0, failed = 0;
  std::map<std::string, uint64_t> seen;
  for (uint64_t seed = 1; events < 1000000; ++seed) {
    World world(random_options(seed), false);
    world.play();
    if (HasFailure()) return;
    events += world.events();
    ++jobs;
    failed += world.failed();
    for (const std::string& what : world.seen) ++seen[what];
    seen["all are late"] += world.all_were_late();
  }
  // In this world all of it happens, and most jobs come to a good end.
  for (const char* what :
       {"repeated", "left", "link down", "owner lost", "leased again", "evaluated on",
        "leased to another one, too", "first though late", "all are late", "came back", "joined again",
        "an answer was lost", "an owner joined again", "journal lost something", "scoring", "failed"})
    EXPECT_GT(seen[what], 10) << what;
  EXPECT_LT(failed, jobs / 2);
}

TEST(JobState, GivesTheSameEffectsForTheSameEvents) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Options options = random_options(seed);
    World world(options, true);
    world.play();
    if (HasFailure()) return;
    JobState again(options.config, 0, true, Time(std::chrono::hours(1)));
    size_t i = 0;
    for (const auto& [event, effects] : world.log()) {
      if (++i == world.log().size() / 2) again = JobState(again);  // a copy is as good
      std::string texts;
      for (const Effect& effect : again.on(event)) texts += text(effect) + "\n";
      ASSERT_EQ(texts, effects) << "event " << i << " of seed " << seed;
    }
  }
}

TEST(Orders, ReachAMemberInTurnAndAgainUntilItHasReceivedThem) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  EXPECT_FALSE(orders.ask(7, 1, 0, 0, now));
  EXPECT_TRUE(orders.ready(now).empty()) << "nothing to say yet";
  EXPECT_EQ(orders.give(7, Order::What::kHold, 3, now), 1);
  EXPECT_EQ(orders.give(7, Order::What::kRelease, 3, now), 2);
  auto settled = orders.ready(now);
  ASSERT_EQ(settled.size(), 1);
  EXPECT_EQ(settled[0].ticket, 1);
  EXPECT_EQ(settled[0].order.number, 1);
  EXPECT_EQ(settled[0].order.what, Order::What::kHold);
  EXPECT_EQ(settled[0].order.value, 3);
  EXPECT_TRUE(orders.ready(now).empty()) << "nobody waits";

  orders.ask(7, 2, 0, 0, now);
  EXPECT_EQ(orders.ready(now).at(0).order.number, 1) << "the answer was lost";
  orders.ask(7, 3, 1, 0, now);
  EXPECT_EQ(orders.ready(now).at(0).order.number, 2) << "the next one, while it carries the first one out";
  EXPECT_FALSE(orders.carried_out(7, 1));
  orders.ask(7, 4, 2, 1, now);
  EXPECT_TRUE(orders.carried_out(7, 1));
  EXPECT_FALSE(orders.carried_out(7, 2));
  EXPECT_TRUE(orders.ready(now).empty()) << "it knows both";
}

TEST(Orders, AreNoneAfterAWhile) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  const auto second = std::chrono::seconds(1);
  orders.ask(7, 1, 0, 0, now);
  orders.ask(8, 2, 0, 0, now + second);
  const auto settled = orders.ready(now + second);
  ASSERT_EQ(settled.size(), 1);
  EXPECT_EQ(settled[0].ticket, 1);
  EXPECT_EQ(settled[0].order.number, 0);
  EXPECT_EQ(orders.waiting(), 1);
}

TEST(Orders, HoldOneRequestOfEachMemberAndNothingOfOneThatIsForgotten) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  orders.ask(7, 1, 0, 0, now);
  EXPECT_EQ(orders.ask(7, 2, 0, 0, now), 1) << "the earlier one";
  orders.give(7, Order::What::kDrain, 0, now);
  EXPECT_EQ(orders.forget(7), 2);
  EXPECT_FALSE(orders.forget(7));
  EXPECT_TRUE(orders.ready(Time::max()).empty());
  EXPECT_FALSE(orders.carried_out(7, 1));
}

TEST(Orders, RefuseWhatWasNeverGiven) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  const auto refuses = [&](uint64_t received, uint64_t carried_out) {
    expect_error(ErrorCode::kInvalid, {"order"}, [&] { orders.ask(7, 1, received, carried_out, now); });
  };
  refuses(1, 0);
  orders.give(7, Order::What::kHold, 1, now);
  refuses(2, 0);
  refuses(0, 1);
  EXPECT_EQ(orders.waiting(), 0);
}

TEST(Orders, KnowWhoIsLate) {
  Orders orders;
  const Time now(std::chrono::hours(1));
  const auto second = std::chrono::seconds(1);
  orders.give(7, Order::What::kHold, 1, now);
  orders.give(8, Order::What::kHold, 1, now + second);
  orders.give(9, Order::What::kHold, 1, now);
  orders.ask(9, 1, 1, 1, now);
  EXPECT_EQ(orders.late(now + second), std::vector<uint64_t>{7});
}

TEST(Questions, AreCompleteOnceEveryOwnerHasAnswered) {
  Questions questions;
  const uint64_t id = questions.ask(Question::Fence{7}, {Then::What::kFenced, 7}, {0, 2});
  EXPECT_FALSE(questions.answer(id, 1, {})) << "it was not asked";
  EXPECT_FALSE(questions.answer(id + 1, 0, {})) << "no such question";
  EXPECT_FALSE(questions.answer(id, 0, {}));
  EXPECT_FALSE(questions.answer(id, 0, {})) << "twice";
  EXPECT_TRUE(questions.open_for(0).empty());
  EXPECT_EQ(questions.open_for(2).size(), 1) << "its next process is asked this";
  const auto complete = questions.answer(id, 2, {});
  ASSERT_TRUE(complete);
  EXPECT_EQ(complete->then.value, 7);
  EXPECT_EQ(complete->answers.size(), 2);
  EXPECT_EQ(questions.size(), 0);
}

TEST(Questions, ThatAreWithdrawnAreNoLongerOpen) {
  Questions questions;
  questions.ask(Question::NewMap{2}, {Then::What::kMapKnown, 2}, {0});
  const uint64_t fence = questions.ask(Question::Fence{7}, {Then::What::kFenced, 7}, {0});
  questions.withdraw(Then::What::kMapKnown);
  EXPECT_EQ(questions.size(), 1);
  EXPECT_TRUE(questions.open_for(0).contains(fence));
}

}  // namespace
}  // namespace embers::job_state_testing
