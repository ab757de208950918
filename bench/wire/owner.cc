#include "bench/wire/owner.h"

#include <algorithm>
#include <array>
#include <future>
#include <numeric>
#include <random>

#include "actors/ask.h"
#include "actors/owner/owner.h"
#include "actors/routing/remote_owner.h"
#include "actors/transport/server.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "client/pipeline/pull.h"
#include "client/pipeline/push.h"

namespace embers {
namespace {

constexpr size_t kFill = 1 << 16;  // rows made at once

TableSpec table(const std::string& optimizer) {
  TableSpec spec;
  spec.name = "rows";
  spec.dim = kBenchDim;
  spec.update_rule.name = optimizer;
  return spec;
}

Origin origin(uint64_t minibatch) {
  Origin o;
  o.job = kBenchRun;
  o.incarnation = 1;
  o.epoch = 1;
  o.minibatch = minibatch;
  o.map_version = 1;
  o.examples = 1;
  return o;
}

KeysView view(std::span<const int64_t> keys) { return {KeyKind::kInt64, keys, {}, {}}; }

[[noreturn]] void give_up(const caf::error& e) {
  fmt::print(stderr, "embers: error: {}\n", from_caf(e).what());
  end_process(1);
}

}  // namespace

KeyMinibatches::KeyMinibatches(int64_t rows) : keys_(static_cast<size_t>(rows)) {
  std::iota(keys_.begin(), keys_.end(), 0);
  std::shuffle(keys_.begin(), keys_.end(), std::mt19937_64(3));
}

OwnerHandles make_bench_owner(caf::actor_system& system, const std::string& optimizer, int64_t rows) {
  OwnerConfig config;
  config.job = kBenchRun;
  config.tables = {table(optimizer)};
  config.map = even_owner_map(1);
  const OwnerHandles owner = spawn_owner(system, config);
  caf::scoped_actor self{system};
  std::vector<int64_t> keys;
  for (int64_t begin = 0; begin < rows; begin += kFill) {
    keys.resize(std::min<int64_t>(kFill, rows - begin));
    std::iota(keys.begin(), keys.end(), begin);
    const TableSlices slices{0, view(keys), 0, {}};
    ask(self.ptr(), owner.shard, make_pull(origin(0), wire::ReadMode::LATEST, true, {&slices, 1}));
  }
  return owner;
}

void serve_bench_owner(const std::string& address, const std::string& optimizer, int64_t rows) {
  SystemConfig config;
  caf::actor_system system(config);
  Transport transport(system);
  const OwnerHandles owner = make_bench_owner(system, optimizer, rows);
  const auto server = Server::listen(transport, {parse_endpoint(address)}, {kBenchRun, false});
  server->serve<OptimizerInterface>(Destination::kOptimizer, owner.optimizer);
  server->serve<ShardInterface>(Destination::kShard, owner.shard);
  server->start();
  answer_lines(server->endpoints()[0].text(), [](const std::string& line) { return line; });
  end_process(0);
}

BenchClient::BenchClient(const std::string& address, const std::string& optimizer, int64_t rows, bool shares)
    : shares_(shares), keys_(rows), local_(address.empty()) {
  if (!shares) transport_.share_nothing();
  owners_->memory = transport_.memory();
  owners_->handles.push_back(local_ ? make_bench_owner(system_, optimizer, rows)
                                    : remote_owner(transport_, "the owner", {address}, true,
                                                   {kBenchRun, 1, wire::Role::WORKER},
                                                   std::chrono::seconds(20), false));
  owners_->map = even_owner_map(1);
  owners_->tables = {table(optimizer)};
}

BenchClient::~BenchClient() {
  transport_.stop();
  if (local_) end_owner(owners_->handles[0]);
}

// --- pulls ---------------------------------------------------------------------------------------

namespace {

// Of all floats, in eight sums so that it takes no longer than reading them.
double sum(std::span<const float> floats) {
  std::array<float, 8> sums{};
  for (size_t i = 0; i + sums.size() <= floats.size(); i += sums.size())
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += floats[i + k];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

using go_atom = caf::atom_constant<caf::atom("go")>;

struct PullerState {
  size_t asked = 0, answered = 0;
  static inline const char* name = "bench puller";
};

}  // namespace

BenchClient::Pulls BenchClient::pull(size_t trips) {
  Pulls pulls;
  std::promise<void> ended;
  const auto behavior = [&](caf::stateful_actor<PullerState>* self, size_t total) -> caf::behavior {
    return {[=, this, &pulls, &ended](go_atom) {
      if (self->state.asked == total) return;
      const auto begin = BenchClock::now();
      const TableSlices slices{0, view(keys_[next_ + self->state.asked++]), 0, {}};
      self->request(owners_->handles[0].shard, caf::infinite,
                    make_pull(origin(0), wire::ReadMode::LATEST, false, {&slices, 1}))
          .then(
              [=, &pulls, &ended](const Message<wire::PullReply>& reply) {
                const auto rows = read_rows(reply.get(), 0, {0, kBenchDim, kBenchKeys});
                if (shares_) pulls.sum += sum(rows);
                pulls.latencies.add(seconds_since(begin) * 1e3);
                if (++self->state.answered == total) {
                  ended.set_value();
                  self->quit();
                } else {
                  self->send(self, go_atom::value);
                }
              },
              [](const caf::error& e) { give_up(e); });
    }};
  };
  const auto begin = BenchClock::now();
  const auto puller = system_.spawn(behavior, trips);
  for (size_t i = 0; i < kBenchOutstanding; ++i) caf::anon_send(puller, go_atom::value);
  ended.get_future().wait();
  pulls.seconds = seconds_since(begin);
  next_ += trips;
  return pulls;
}

// --- pull, then push -----------------------------------------------------------------------------

namespace {

struct BenchWork : Work {
  Keys unique;
};

// Hands out work: keys, and the gradients that a trainer would make of their rows.
std::shared_ptr<BenchWork> make_work(std::span<const int64_t> keys, uint64_t minibatch) {
  auto work = std::make_shared<BenchWork>();
  work->origin = origin(minibatch);
  work->unique = Keys(view(keys));
  work->keys.push_back({0, work->unique});
  return work;
}

// What the trainer does: the gradients of the pulled rows, here the rows themselves. The buffer of the rows
// is that of the gradients.
void make_gradients(BenchWork& work) { work.gradients = {{0, work.unique, work.rows.bets[0].span()}}; }

}  // namespace

double BenchClient::train(double seconds, size_t depth) {
  ModelSpec model;
  model.tables = owners_->tables;
  const auto dense = std::make_shared<DenseKeys>(model);
  std::promise<size_t> ended;
  const auto begin = BenchClock::now();
  const auto behavior = [&](caf::stateful_actor<PullerState>* self, size_t) -> caf::behavior {
    return {[=, this, &ended](go_atom) {
      if (seconds_since(begin) >= seconds) {
        if (self->state.answered == self->state.asked) {
          ended.set_value(self->state.answered);
          self->quit();
        }
        return;
      }
      const size_t number = next_ + self->state.asked++;
      const std::shared_ptr<BenchWork> work = make_work(keys_[number], number + 1);
      const auto plan = std::make_shared<PullPlan>(plan_pull(*work, *owners_, model, *dense));
      route_pull(*plan, *owners_);
      work->versions.assign(1, 0);
      self->request(owners_->handles[0].shard, caf::infinite,
                    pull_request(*plan, 0, work->origin, false, true))
          .then(
              [=, this](const Message<wire::PullReply>& reply) {
                take_rows(*plan, 0, *owners_, reply.get());
                work->versions[0] = reply.get().getVersion();
                make_gradients(*work);
                const auto push = push_requests(*work, *owners_, model, *dense);
                self->request(owners_->handles[0].optimizer, caf::infinite, push[0])
                    .then(
                        [=](const Message<wire::PushReply>&) {
                          ++self->state.answered;
                          self->send(self, go_atom::value);
                        },
                        [](const caf::error& e) { give_up(e); });
              },
              [](const caf::error& e) { give_up(e); });
    }};
  };
  const auto trainer = system_.spawn(behavior, size_t{0});
  for (size_t i = 0; i < depth; ++i) caf::anon_send(trainer, go_atom::value);
  const size_t minibatches = ended.get_future().get();
  next_ += minibatches;
  return static_cast<double>(minibatches * kBenchKeys) / seconds_since(begin);
}

}  // namespace embers
