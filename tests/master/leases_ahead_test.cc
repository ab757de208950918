// Workers whose loaders draw leases ahead, simulated: each is a program that draws, begins and computes in
// the order of its pipeline and waits for nothing else. Whoever can go on, does, in an order that a seed
// decides.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include "master/state/job_state.h"

namespace embers::leases_ahead_testing {
namespace {

using Random = std::mt19937_64;

struct Options {
  job::Mode mode = job::Mode::kSync;
  uint64_t seed = 0;
  size_t workers = 2;
  uint32_t ahead = 4;  // prefetch_factor x num_workers
  uint32_t grads_to_wait = 2, epochs = 1;
  uint64_t minibatches = 90;
  size_t kills = 0;
  size_t without_window = 0;  // of the workers
  bool greedy = false;        // the first worker goes on for as long as it can, then the next
  bool evaluates = false;     // the second worker draws nothing for a long while, again and again
  bool saves = false;         // workers want checkpoints between two minibatches, and wait for them
  bool hangs = false;         // the first worker computes one for ever, and asks to begin the next meanwhile
};

class Simulated {
 public:
  explicit Simulated(const Options& options) : options_(options), random_(options.seed + 1) {
    auto config = std::make_shared<JobConfig>();
    TableSpec table;
    table.name = "a";
    table.dim = 1;
    table.update_rule = {"sgd", {{"learning_rate", 1.0}}};
    config->model.tables = {table};
    job::Job& job = config->job;
    job.training.mode = options.mode;
    job.training.epochs = options.epochs;
    job.training.grads_to_wait = options.grads_to_wait;
    job.training.staleness_bound = 2;
    job.job.worker_timeout = 600;
    if (options.hangs) job.job.lease_timeout = 5;
    config->workers = static_cast<uint32_t>(options.workers);
    config->train_minibatches = options.minibatches;
    state_.emplace(config, 1, false, now_);
    for (size_t i = 0; i < options.workers; ++i) join(i < options.without_window ? 0 : options.ahead + 1);
  }

  void run() {
    size_t idle = 0;
    for (uint64_t step = 0; state_->phase() != Phase::kOver; ++step) {
      if (step > 400'000 || idle > 400) {
        ADD_FAILURE() << "stuck: " << done_.size() << " minibatches are done; seed " << options_.seed;
        return;
      }
      if (testing::Test::HasFailure()) return;
      if (options_.kills > killed_ && done_.size() > (killed_ + 1) * options_.minibatches / 4) kill();
      Worker* const next = runnable();
      if (next == nullptr || (!options_.greedy && random_() % 200 == 0)) {
        tick();
        ++idle;
      }
      if (next == nullptr) continue;
      idle = 0;
      go_on(*next);
    }
    EXPECT_FALSE(state_->error()) << state_->error()->what();
    EXPECT_EQ(done_.size(), options_.minibatches * options_.epochs);
    for (const auto& [minibatch, times] : done_) EXPECT_EQ(times, 1) << minibatch.second;
    if (options_.mode == job::Mode::kSync) {
      EXPECT_EQ(in_order_, done_.size());
    }
  }

  // Versions with minibatches of several workers.
  size_t shared() const {
    return static_cast<size_t>(
        std::ranges::count_if(workers_of_, [](const auto& version) { return version.second.size() > 1; }));
  }
  size_t versions() const { return workers_of_.size(); }
  uint64_t restarts() const { return restarts_; }
  uint64_t saved() const { return saved_; }
  bool asked_while_hanging() const { return workers_[0].asks; }

 private:
  enum class At : uint8_t {
    kJoining,
    kNext,
    kDrawing,
    kBeginning,
    kComputing,
    kEvaluating,
    kSaving,
    kHanging,
    kOver
  };
  struct Lease {
    bool evaluation;
    uint32_t epoch;
    uint64_t version, lease, minibatch;
    uint32_t attempt;
  };
  struct Worker {
    uint64_t link, incarnation = 0;
    uint32_t window;
    At at = At::kJoining;
    Ticket ticket = 0;
    std::deque<Lease> pipeline;
    std::optional<Lease> computing;
    uint64_t received = 0, steps = 0, wish = 0;
    Ticket unwanted = 0;  // of a lease that it gives back, since it saves
    bool asks = false;    // while it hangs
  };

  void give(decltype(Event::what) what) {
    events_.push_back(std::move(what));
    if (std::exchange(giving_, true)) return;
    while (!events_.empty()) {
      const Event event{now_, std::move(events_.front())};
      events_.pop_front();
      for (const Effect& effect : state_->on(event))
        std::visit([this](const auto& e) { see(e); }, effect.what);
    }
    giving_ = false;
  }

  void join(uint32_t window) {
    Worker& w = workers_.emplace_back();
    w.window = window;
    w.link = ++last_link_;
    Event::Join e;
    e.ticket = w.ticket = ++last_ticket_;
    e.link = w.link;
    e.host = "here";
    e.model = {"table 'a': dim 1, keys int64"};
    e.window = window;
    give(e);
  }

  Worker* runnable() {
    std::vector<Worker*> can;
    for (Worker& w : workers_)
      if (w.at == At::kNext || w.at == At::kComputing) can.push_back(&w);
    if (can.empty()) return nullptr;
    return can[options_.greedy ? 0 : random_() % can.size()];
  }

  // As a loader's next(): it draws until it is as far ahead as it may be, then hands out the first.
  void go_on(Worker& w) {
    if (w.at == At::kComputing) {
      if (w.steps-- > 0) return;
      w.at = At::kNext;
      return finish(w);
    }
    const size_t most = w.window == 0 ? 1 : w.window;
    if (options_.evaluates && &w == &workers_[1] && w.pipeline.empty() && random_() % 8 == 0) {
      w.at = At::kEvaluating;
      return;
    }
    if (options_.saves && random_() % 20 == 0) {
      w.at = At::kSaving;
      w.wish = ++last_wish_;
      if (w.window == 0) prepare_to_wait(w);
      return save(w);
    }
    w.pipeline.size() < most ? draw(w) : begin(w);
  }

  // Its session asks for work at any time, and gives back what comes.
  void prepare_to_wait(Worker& w) {
    for (const Lease& lease : std::exchange(w.pipeline, {})) tell(w, lease, true);
    if (w.unwanted != 0) return;
    w.unwanted = ++last_ticket_;
    give(Event::Lease{w.unwanted, w.incarnation, w.received});
  }

  void save(Worker& w) {
    w.ticket = ++last_ticket_;
    give(Event::Checkpoint{w.ticket, w.wish, "there"});
    Worker& first = workers_[0];
    if (first.at == At::kHanging && first.window > 0 && !std::exchange(first.asks, true)) ask_to_begin(first);
  }

  void draw(Worker& w) {
    w.at = At::kDrawing;
    if (w.unwanted != 0) {
      w.ticket = std::exchange(w.unwanted, 0);
      return;
    }
    w.ticket = ++last_ticket_;
    give(Event::Lease{w.ticket, w.incarnation, w.received});
  }

  void begin(Worker& w) {
    const Lease head = w.pipeline.front();
    if (w.window == 0) {
      w.pipeline.pop_front();
      return compute(w, head);
    }
    w.at = At::kBeginning;
    ask_to_begin(w);
  }

  void ask_to_begin(Worker& w) {
    const Lease head = w.pipeline.front();
    w.ticket = ++last_ticket_;
    give(Event::Begin{w.ticket, w.incarnation, head.lease, head.minibatch, head.attempt});
  }

  void compute(Worker& w, const Lease& lease) {
    EXPECT_TRUE(options_.mode != job::Mode::kSync || lease.version == version_)
        << "minibatch " << lease.minibatch << " began at version " << version_;
    w.computing = lease;
    w.at = At::kComputing;
    w.steps = options_.greedy ? 0 : random_() % 4;
    if (options_.hangs && &w == &workers_[0] && (w.window == 0 || !w.pipeline.empty()) &&
        done_.size() > options_.minibatches / 4)
      w.at = At::kHanging;
  }

  void tell(Worker& w, const Lease& lease, bool returned) {
    Event::Done e;
    e.ticket = ++last_ticket_;
    e.incarnation = w.incarnation;
    e.lease = lease.lease;
    e.minibatch = lease.minibatch;
    e.attempt = lease.attempt;
    e.returned = returned;
    e.examples = 1;
    telling_[e.ticket] = {&w - &workers_[0], returned ? std::nullopt : std::optional(lease)};
    give(e);
  }

  void finish(Worker& w) {
    const Lease lease = *std::exchange(w.computing, std::nullopt);
    if (options_.mode != job::Mode::kSync && applied_.insert({lease.epoch, lease.minibatch}).second)
      ++examples_;
    tell(w, lease, false);
  }

  void see(const Effect::Answer& e) {
    if (const auto* done = std::get_if<Reply::Done>(&e.reply)) {
      const auto told = telling_.extract(e.ticket);
      if (!told.mapped().second || !done->accepted) return;
      const Lease& lease = *told.mapped().second;
      ++done_[{lease.epoch, lease.minibatch}];
      by_[{lease.epoch, lease.minibatch}] = told.mapped().first;
      return;
    }
    for (Worker& w : workers_) {
      if (w.unwanted == e.ticket && w.at != At::kOver) {
        w.unwanted = 0;
        return give_back(w, std::get<Reply::Lease>(e.reply));
      }
      if (w.ticket != e.ticket || w.at == At::kOver) continue;
      if (w.at == At::kHanging) {
        EXPECT_FALSE(std::get<Reply::Begin>(e.reply).begun) << "others do what it holds";
        continue;
      }
      if (const auto* joined = std::get_if<Reply::Join>(&e.reply)) {
        w.incarnation = joined->incarnation;
        w.at = At::kNext;
      } else if (const auto* leased = std::get_if<Reply::Lease>(&e.reply)) {
        drawn(w, *leased);
      } else if (const auto* begun = std::get_if<Reply::Begin>(&e.reply)) {
        begun->begun ? take_head(w) : start_again(w);
      } else if (const auto* checkpoint = std::get_if<Reply::Checkpoint>(&e.reply)) {
        if (!checkpoint->saved) return save(w);
        ++saved_;
        w.at = At::kNext;
      }
    }
  }

  void drawn(Worker& w, const Reply::Lease& reply) {
    using Kind = Reply::Lease::Kind;
    if (reply.kind == Kind::kEnd) {
      w.at = At::kOver;
      return give(Event::Leave{++last_ticket_, w.incarnation});
    }
    w.at = At::kNext;
    if (reply.kind == Kind::kLater) {
      EXPECT_FALSE(w.pipeline.empty()) << "nothing now, but it holds nothing";
      return begin(w);
    }
    w.received = reply.lease.id;
    for (const auto& part : reply.lease.parts)
      w.pipeline.push_back({reply.kind == Kind::kEvaluate, reply.epoch, reply.version, reply.lease.id,
                            part.minibatch, part.attempt});
    EXPECT_TRUE(w.window == 0 || w.pipeline.size() <= w.window);
  }

  void give_back(Worker& w, const Reply::Lease& reply) {
    w.received = std::max(w.received, reply.lease.id);
    for (const auto& part : reply.lease.parts)
      tell(w, {false, reply.epoch, reply.version, reply.lease.id, part.minibatch, part.attempt}, true);
  }

  void take_head(Worker& w) {
    const Lease head = w.pipeline.front();
    w.pipeline.pop_front();
    compute(w, head);
  }

  void start_again(Worker& w) {
    ++restarts_;
    w.at = At::kNext;
    for (const Lease& lease : std::exchange(w.pipeline, {})) tell(w, lease, true);
  }

  void see(const Effect::Ask& e) {
    const auto answer = [&](OwnerAnswer a) { give(Event::OwnerAnswered{e.number, e.incarnation, e.id, a}); };
    if (const auto* commit = std::get_if<Commit>(&e.question)) {
      version_ = commit->version;
      std::set<size_t>& workers = workers_of_[commit->version];
      for (const auto& part : commit->parts) {
        EXPECT_EQ(part.minibatch, in_order_ % options_.minibatches) << "out of order";
        const uint32_t epoch = static_cast<uint32_t>(in_order_++ / options_.minibatches) + 1;
        workers.insert(static_cast<size_t>(by_.at({epoch, part.minibatch})));
        ++examples_;
      }
      return answer(std::monostate());
    }
    if (!std::holds_alternative<Question::Stats>(e.question)) return answer(std::monostate());
    OwnerCounts counts;
    counts.sums.examples = counts.sums.minibatches = examples_;
    counts.sums.version = version_;
    answer(counts);
  }

  void see(const Effect::Prepare& e) { give(Event::Prepared{e.here}); }
  void see(const Effect::Save&) { give(Event::Saved{}); }
  void see(const Effect::Tell&) { give(Event::OwnerTold{}); }
  void see(const Effect::Checkpoint&) {
    for (const Worker& w : workers_) EXPECT_NE(w.at, At::kComputing);
    give(Event::CheckpointSaved{});
  }
  // What a killed worker waited for; and a checkpoint while another one is saved.
  void see(const Effect::Refuse& e) {
    for (Worker& w : workers_)
      if (w.at == At::kSaving && w.ticket == e.ticket) {
        w.at = At::kNext;
        return;
      }
    EXPECT_EQ(refused_.erase(e.ticket), 1u) << e.error.what();
  }
  void see(const auto&) {}

  void kill() {
    std::vector<Worker*> alive;
    for (Worker& w : workers_)
      if (w.at != At::kOver && w.incarnation != 0) alive.push_back(&w);
    if (alive.size() < 2) return;
    Worker& w = *alive[random_() % alive.size()];
    w.at = At::kOver;
    for (Ticket* ticket : {&w.ticket, &w.unwanted}) refused_.insert(std::exchange(*ticket, 0));
    ++killed_;
    give(Event::LinkDown{w.link, "killed"});
  }

  void tick() {
    now_ += std::chrono::milliseconds(500);
    for (Worker& w : workers_)
      if (w.at != At::kOver && w.incarnation != 0) {
        give(Event::Heartbeat{++last_ticket_, w.incarnation});
        if (w.at == At::kEvaluating && random_() % 12 == 0) w.at = At::kNext;
      }
    give(Event::Tick{});
  }

  const Options options_;
  Random random_;
  Time now_{std::chrono::hours(1)};
  std::optional<JobState> state_;
  std::deque<decltype(Event::what)> events_;
  bool giving_ = false;
  std::deque<Worker> workers_;
  uint64_t last_link_ = 0, restarts_ = 0, last_wish_ = 0, saved_ = 0;
  Ticket last_ticket_ = 0;
  std::set<Ticket> refused_;
  std::map<Ticket, std::pair<std::ptrdiff_t, std::optional<Lease>>> telling_;
  std::map<std::pair<uint32_t, uint64_t>, int> done_;
  std::map<std::pair<uint32_t, uint64_t>, std::ptrdiff_t> by_;
  std::set<std::pair<uint32_t, uint64_t>> applied_;
  uint64_t version_ = 0, examples_ = 0, in_order_ = 0;
  std::map<uint64_t, std::set<size_t>> workers_of_;
  size_t killed_ = 0;
};

TEST(LeasesAhead, HaveNoDeadlockAndCountEachMinibatchOnce) {
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    Options options{.seed = seed};
    const job::Mode modes[] = {job::Mode::kSync, job::Mode::kSync, job::Mode::kAsync, job::Mode::kBounded};
    options.mode = modes[random() % 4];
    options.workers = 2 + random() % 2;
    const uint32_t aheads[] = {0, 1, 4, 8};
    options.ahead = aheads[random() % 4];
    options.grads_to_wait = static_cast<uint32_t>(1 + random() % 6);
    options.epochs = static_cast<uint32_t>(1 + random() % 2);
    options.without_window = random() % 5 == 0;
    options.evaluates = random() % 4 == 0;
    Simulated(options).run();
  }
}

// A worker that waits for a checkpoint holds leases, which others may be waiting for.
TEST(LeasesAhead, DoNotHoldUpCheckpoints) {
  uint64_t saved = 0;
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    Options options{.seed = seed, .workers = 1 + random() % 3, .saves = true};
    const job::Mode modes[] = {job::Mode::kSync, job::Mode::kAsync, job::Mode::kBounded};
    options.mode = modes[random() % 3];
    options.ahead = random() % 2 == 0 ? 4 : 0;
    options.grads_to_wait = static_cast<uint32_t>(1 + random() % 6);
    options.kills = random() % 2;
    Simulated job(options);
    job.run();
    saved += job.saved();
  }
  EXPECT_GT(saved, 300u);
}

// It is late though it waits for something, too: others do what it has begun, and are saved.
TEST(LeasesAhead, DoNotHideThatAWorkerHangs) {
  uint64_t saved = 0, asked = 0;
  for (uint64_t seed = 0; seed < 200 && !testing::Test::HasFailure(); ++seed) {
    Simulated job({.mode = seed % 2 == 0 ? job::Mode::kAsync : job::Mode::kBounded,
                   .seed = seed,
                   .workers = 3,
                   .ahead = seed % 3 == 0 ? 0u : 4u,
                   .without_window = seed / 4 % 4,
                   .saves = true,
                   .hangs = true});
    job.run();
    saved += job.saved();
    asked += job.asked_while_hanging();
  }
  EXPECT_GT(saved, 100u);
  EXPECT_GT(asked, 20u);
}

TEST(LeasesAhead, SurviveKills) {
  uint64_t restarts = 0;
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    Options options{.seed = seed, .workers = 3};
    options.mode = random() % 4 == 0 ? job::Mode::kAsync : job::Mode::kSync;
    options.ahead = random() % 2 == 0 ? 4 : 0;
    options.grads_to_wait = static_cast<uint32_t>(1 + random() % 4);
    options.kills = 1 + random() % 2;
    Simulated job(options);
    job.run();
    restarts += job.restarts();
  }
  EXPECT_GT(restarts, 0u) << "what a killed worker had drawn lies behind what others have drawn";
}

// Even if one worker always draws before the others, each has its share of every version.
TEST(LeasesAhead, KeepTheParallelismOfSyncMode) {
  for (const size_t workers : {2, 3})
    for (const uint32_t ahead : {0u, 4u})
      for (const bool greedy : {true, false}) {
        // Time stands still while somebody can go on.
        Simulated job({.workers = workers,
                       .ahead = ahead,
                       .grads_to_wait = static_cast<uint32_t>(workers),
                       .minibatches = 60 * workers,
                       .greedy = greedy});
        job.run();
        EXPECT_EQ(job.versions(), 60u);
        EXPECT_EQ(job.shared(), 60u) << workers << " workers, " << ahead << " ahead"
                                     << (greedy ? ", greedy" : "");
        EXPECT_EQ(job.restarts(), 0u);
      }
}

}  // namespace
}  // namespace embers::leases_ahead_testing
