#include "bench/wire/client.h"

#include <fmt/ranges.h>

#include <array>
#include <future>
#include <numeric>
#include <queue>
#include <sstream>
#include <thread>

#include "actors/ask.h"
#include "actors/owner/owner.h"
#include "actors/routing/remote_owner.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/compare.h"
#include "bench/wire/checked_rows.h"
#include "bench/wire/due_moments.h"
#include "bench/wire/owner.h"
#include "client/pipeline/pull.h"
#include "client/pipeline/push.h"

namespace embers {
namespace {

KeysView view(std::span<const int64_t> keys) { return {KeyKind::kInt64, keys, {}, {}}; }

[[noreturn]] void give_up(const Error& why) {
  fmt::print(stderr, "embers: error: {}\n", why.what());
  end_process(1);
}

struct BenchWork : Work {
  Keys unique;
};

std::shared_ptr<BenchWork> make_work(std::span<const int64_t> keys, uint64_t minibatch) {
  auto work = std::make_shared<BenchWork>();
  work->origin = bench_origin(minibatch);
  work->unique = Keys(view(keys));
  work->keys.push_back({0, work->unique});
  work->versions.assign(1, 0);
  return work;
}

Message<wire::PullRequest> pull_of(std::span<const int64_t> keys) {
  const TableSlices slices{0, view(keys), 0, {}};
  return make_pull(bench_origin(0), wire::ReadMode::LATEST, false, {&slices, 1});
}

std::span<const float> rows_in(const Message<wire::PullReply>& reply) {
  return read_rows(reply.get(), 0, {0, kBenchDim, kBenchKeys});
}

using go_atom = caf::atom_constant<caf::atom("go")>;
using due_atom = caf::atom_constant<caf::atom("due")>;

struct Counts {
  size_t asked = 0, answered = 0;
  static inline const char* name = "bench client";
};
using CountingActor = caf::stateful_actor<Counts>;

int64_t nanoseconds(BenchClock::time_point moment) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(moment.time_since_epoch()).count();
}

}  // namespace

BenchClient::BenchClient(const std::string& address, const std::string& optimizer, int64_t rows, bool shares)
    : shares_(shares), rows_(rows), keys_(rows), local_(address.empty()) {
  if (!shares) transport_.share_nothing();
  owners_->memory = transport_.memory();
  owners_->handles.push_back(local_ ? make_bench_owner(system_, optimizer, rows)
                                    : remote_owner(transport_, "the owner", {address}, true,
                                                   {kBenchRun, 1, wire::Role::WORKER},
                                                   std::chrono::seconds(20), false));
  owners_->map = even_owner_map(1);
  owners_->tables = {bench_table(optimizer)};
}

BenchClient::~BenchClient() {
  transport_.stop();
  if (local_) end_owner(owners_->handles[0]);
}

// --- pulls ---------------------------------------------------------------------------------------

// Pulls: the next minibatch for each "go", and another one when that is answered; one for each "due", which
// brings the moment at which it was.
class BenchClient::Puller {
 public:
  Puller(BenchClient& client, size_t total) : client_(client), total_(total) {}

  caf::actor spawn() {
    return client_.system_.spawn([this](CountingActor* self) -> caf::behavior {
      return {[=, this](go_atom) {
                if (self->state.asked < total_)
                  pull(self, [=, this] {
                    if (self->state.answered < total_) self->send(self, go_atom::value);
                  });
              },
              [=, this](due_atom, int64_t due) {
                waiting_.push(due);
                if (self->state.asked - self->state.answered < kBenchOutstanding) pull_due(self);
              }};
    });
  }
  Latencies wait() {
    ended_->get_future().wait();
    return std::move(latencies_);
  }

 private:
  // As in a worker, so many are under way at most. Whoever must wait for that has been due all the while.
  void pull_due(CountingActor* self) {
    const int64_t due = waiting_.front();
    waiting_.pop();
    pull(self, [=, this] {
      latencies_.add(1e-6 * static_cast<double>(nanoseconds(BenchClock::now()) - due));
      if (!waiting_.empty()) pull_due(self);
    });
  }

  template <class Then>
  void pull(CountingActor* self, const Then& then) {
    const size_t minibatch = self->state.asked++;
    self->request(client_.owners_->handles[0].shard, caf::infinite, pull_of(client_.keys_[minibatch]))
        .then(
            [=, this](const Message<wire::PullReply>& reply) {
              const std::span<const float> rows = rows_in(reply);
              try {
                replies_.check(minibatch, rows);
              } catch (const Error& other) {
                give_up(other);
              }
              if (client_.shares_) sum_ += sum_of(rows);
              ++self->state.answered;
              then();
              if (self->state.answered < total_) return;
              const auto ended = ended_;  // this ends with the wait
              ended->set_value();
              self->quit();
            },
            [](const caf::error& e) { give_up(from_caf(e)); });
  }

  BenchClient& client_;
  const size_t total_;
  const WireReplies replies_;
  std::queue<int64_t> waiting_;  // only the actor uses these until it has ended
  Latencies latencies_;
  double sum_ = 0;
  const std::shared_ptr<std::promise<void>> ended_ = std::make_shared<std::promise<void>>();
};

double BenchClient::pull(size_t trips) {
  Puller puller(*this, trips);
  const auto begin = BenchClock::now();
  const auto actor = puller.spawn();
  for (size_t i = 0; i < kBenchOutstanding; ++i) caf::anon_send(actor, go_atom::value);
  puller.wait();
  return seconds_since(begin);
}

Latencies BenchClient::pull_at(double rate, size_t trips, uint64_t seed) {
  Puller puller(*this, trips);
  const auto actor = puller.spawn();
  DueMoments moments(rate, seed);
  for (size_t i = 0; i < trips; ++i) {
    const auto due = moments.next();
    std::this_thread::sleep_until(due);
    caf::anon_send(actor, due_atom::value, nanoseconds(due));
  }
  return puller.wait();
}

// --- rows ----------------------------------------------------------------------------------------

std::vector<float> BenchClient::rows_of(std::span<const int64_t> keys) {
  caf::scoped_actor self{system_};
  const auto reply = ask(self.ptr(), owners_->handles[0].shard, pull_of(keys));
  const std::span<const float> rows = read_rows(reply.get(), 0, {0, kBenchDim, keys.size()});
  return {rows.begin(), rows.end()};
}

std::vector<float> BenchClient::check_rows(int64_t first) {
  const std::vector<int64_t> keys = checked_keys(first);
  ModelSpec model;
  model.tables = owners_->tables;
  const DenseKeys dense(model);
  std::vector<float> gradients;
  for (size_t i = 0; i < keys.size(); ++i)
    for (const float g : checked_gradient(i)) gradients.push_back(g);
  caf::scoped_actor self{system_};
  const TableSlices slices{0, view(keys), 0, {}};
  ask(self.ptr(), owners_->handles[0].shard,
      make_pull(bench_origin(0), wire::ReadMode::LATEST, true, {&slices, 1}));
  for (int step = 0; step < kCheckedSteps; ++step) {
    const auto work = make_work(keys, ++next_);
    work->gradients = {{0, work->unique, gradients}};
    ask(self.ptr(), owners_->handles[0].optimizer, push_requests(*work, *owners_, model, dense)[0]);
  }
  return rows_of(keys);
}

void BenchClient::set_wire_rows() {
  ModelSpec model;
  model.tables = owners_->tables;
  const DenseKeys dense(model);
  caf::scoped_actor self{system_};
  for (size_t m = 0; m < kBenchMinibatches; ++m) {
    const auto work = make_work(keys_[m], ++next_);
    std::vector<float> gradients;
    for (const int64_t key : keys_[m])
      for (size_t column = 0; column < kBenchDim; ++column) gradients.push_back(-wire_value(key, column));
    work->gradients = {{0, work->unique, gradients}};
    ask(self.ptr(), owners_->handles[0].optimizer, push_requests(*work, *owners_, model, dense)[0]);
  }
}

std::string BenchClient::wire_checksums() {
  std::string text;
  for (size_t m = 0; m < kBenchMinibatches; ++m) text += fmt::format("{:016x} ", checksum(rows_of(keys_[m])));
  return text;
}

// --- pull, then push -----------------------------------------------------------------------------

// What a number of minibatches share that are trained on.
struct BenchClient::Training {
  Training(BenchClient& client, const KeyMinibatches& keys, size_t total)
      : client(client), keys(keys), total(total) {
    model.tables = client.owners_->tables;
    dense = std::make_unique<DenseKeys>(model);
  }

  // Takes the next minibatch, if there is one, and once it is pushed, the one after it.
  void go(CountingActor* self) {
    if (self->state.asked == total) return;
    const size_t number = client.next_ + self->state.asked++;
    const auto work = make_work(keys[number], number + 1);
    const auto plan = std::make_shared<PullPlan>(plan_pull(*work, *client.owners_, model, *dense));
    route_pull(*plan, *client.owners_);
    self->request(client.owners_->handles[0].shard, caf::infinite,
                  pull_request(*plan, 0, work->origin, false, true))
        .then(
            [=, this](const Message<wire::PullReply>& reply) {
              take_rows(*plan, 0, *client.owners_, reply.get());
              work->versions[0] = reply.get().getVersion();
              push(self, work);
            },
            [](const caf::error& e) { give_up(from_caf(e)); });
  }
  void push(CountingActor* self, const std::shared_ptr<BenchWork>& work) {
    work->gradients = {{0, work->unique, gradients}};
    self->request(client.owners_->handles[0].optimizer, caf::infinite,
                  push_requests(*work, *client.owners_, model, *dense)[0])
        .then(
            [=, this](const Message<wire::PushReply>&) {
              if (++self->state.answered < total) return self->send(self, go_atom::value);
              const auto over = ended;  // this ends with the wait
              over->set_value();
              self->quit();
            },
            [](const caf::error& e) { give_up(from_caf(e)); });
  }

  BenchClient& client;
  const KeyMinibatches& keys;
  const size_t total;
  ModelSpec model;
  std::unique_ptr<DenseKeys> dense;
  const std::vector<float> gradients = std::vector<float>(kBenchKeys * kBenchDim, kTimedGradient);
  const std::shared_ptr<std::promise<void>> ended = std::make_shared<std::promise<void>>();
};

double BenchClient::train(size_t minibatches, size_t depth, bool zipf) {
  if (!zipf_) {
    zipf_ = KeyMinibatches::zipf(rows_);
    replay_.emplace(keys_, *zipf_);
  }
  Training training(*this, zipf ? *zipf_ : keys_, minibatches);
  const auto begin = BenchClock::now();
  const auto actor = system_.spawn([&](CountingActor* self) -> caf::behavior {
    return {[&training, self](go_atom) { training.go(self); }};
  });
  for (size_t i = 0; i < depth; ++i) caf::anon_send(actor, go_atom::value);
  training.ended->get_future().wait();
  const double seconds = seconds_since(begin);
  for (size_t end = next_ + minibatches; next_ < end; ++next_) replay_->trained(zipf, next_, next_ + 1);
  return seconds;
}

std::vector<float> BenchClient::lap(size_t minibatches, size_t depth) {
  const size_t first = next_;
  train(minibatches, depth);
  std::vector<float> ways;
  for (size_t i = 0; i < minibatches; ++i) ways.push_back(way_of(rows_of(keys_[first + i])));
  return ways;
}

std::string BenchClient::replayed() {
  return replay_.value().answer([this](std::span<const int64_t> keys) { return rows_of(keys); });
}

// --- the process ---------------------------------------------------------------------------------

void run_bench_client(const std::vector<std::string>& words) {
  const bool shares = words.size() < 5 || words[4] != "sockets";
  BenchClient client(words.at(1) == "local" ? "" : words.at(1), words.at(2), std::stol(words.at(3)), shares);
  answer_lines("", [&](const std::string& line) -> std::string {
    std::istringstream in(line);
    std::string what;
    in >> what;
    if (what == "set") return client.set_wire_rows(), "done";
    if (what == "check") return client.wire_checksums();
    if (what == "check-rows") {
      int64_t first = 0;
      in >> first;
      return text_of(client.check_rows(first));
    }
    if (what == "replayed") return client.replayed();
    double rate = 0;
    if (what == "pull-at") in >> rate;
    size_t count = 0, depth = 0;
    in >> count >> depth;
    if (what == "pull") return fmt::format("{}", client.pull(count));
    if (what == "pull-at")
      return fmt::format("{:.4f}", fmt::join(client.pull_at(rate, count, depth).all(), " "));
    if (what == "lap") return text_of(client.lap(count, depth));
    std::string drawn;
    in >> drawn;
    return fmt::format("{}", client.train(count, depth, drawn == "zipf"));
  });
}

}  // namespace embers
