#pragma once

// A whole job in one thread: the real master, owners and sessions, each in a simulated process of its own,
// and a model of sums instead of libtorch.
#include <algorithm>
#include <bit>
#include <set>

#include "actors/ask.h"
#include "actors/owner/owner.h"
#include "actors/routing/remote_owner.h"
#include "client/owner/owner_life.h"
#include "client/pipeline/session_actor.h"
#include "storage/checkpoint/checkpoint.h"
#include "tests/support/actors.h"
#include "tests/support/master_config.h"
#include "tests/support/simulated_disk.h"
#include "tests/support/simulated_network.h"
#include "tests/support/simulated_servers.h"

namespace embers::testing_support {

inline constexpr uint64_t kRecords = 4;  // of a minibatch
inline constexpr uint64_t kKeysOfRecord = 2;
inline constexpr int64_t kKeys = 23;
inline constexpr uint32_t kSumDim = 2;

struct JobShape {
  job::Mode mode = job::Mode::kAsync;
  uint32_t shards = 1, workers = 1, minibatches = 8, test_minibatches = 0, epochs = 1, grads_to_wait = 1;
  uint32_t prefetch = 2, minibatches_per_lease = 2, cache_rows = 0;
  bool rows_in_servers = false;             // with a journal: owners come back
  uint32_t save_every = 0;                  // epochs; 0: no checkpoint
  bool resumes = false;                     // from the checkpoint, if there is one
  Partition partition = Partition::kToken;  // of both tables

  uint64_t records() const { return kRecords * minibatches * epochs; }
};

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a * 0x9E3779B97F4A7C15u) ^ (b + 0x632BE59BD9B4E019u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The keys of a record, which may be equal.
inline std::vector<int64_t> keys_of_record(bool evaluate, uint64_t epoch, uint64_t minibatch,
                                           uint64_t record) {
  std::vector<int64_t> keys;
  for (uint64_t i = 0; i < kKeysOfRecord; ++i)
    keys.push_back(static_cast<int64_t>(
        mix(mix(evaluate ? 0 : epoch, minibatch), record * kKeysOfRecord + i + evaluate * 100) % kKeys));
  return keys;
}

// A minibatch of the model of sums. Table "sum": its gradients depend on its rows and on w, so that rows
// depend on the order and the grouping of all updates. Table "count": a row is the number of times that its
// key was in a record.
struct SumWork : Work {
  Keys unique{KeyKind::kInt64};
  FloatBuffer sum, count, w;
  std::vector<float> scores, labels;
  std::vector<uint64_t> records;

  std::map<int64_t, uint64_t> occurrences() const {
    std::map<int64_t, uint64_t> found;
    for (uint64_t r = 0; r < kRecords; ++r)
      for (const int64_t key : keys_of_record(evaluate, origin.epoch, origin.minibatch, r)) ++found[key];
    return found;
  }
  void read() {
    std::vector<int64_t> keys_found;
    for (const auto& [key, times] : occurrences()) keys_found.push_back(key);
    unique = Keys(keys_found);
    keys = {{0, unique}, {1, unique}};
    report.examples = kRecords;
    origin.examples = kRecords;
    is_read = true;
  }
  void train() {
    const auto found = occurrences();
    const std::span<const float> sums = rows.bets.at(0).span(), dense = rows.dense.span();
    scores.assign(kRecords, 0);
    for (uint64_t r = 0; r < kRecords; ++r) {
      for (const int64_t key : keys_of_record(evaluate, origin.epoch, origin.minibatch, r))
        scores[r] += sums[static_cast<size_t>(std::distance(found.begin(), found.find(key))) * kSumDim];
      labels.push_back(static_cast<float>(mix(origin.minibatch, r) % 2));
      records.push_back(origin.minibatch * kRecords + r);
      report.loss_sum += scores[r];
    }
    report.scores = scores;
    report.labels = labels;
    report.records = records;
    if (evaluate) return;
    sum = FloatBuffer(found.size() * kSumDim);
    count = FloatBuffer(found.size());
    w = FloatBuffer(kDenseChunk);
    std::fill(w.span().begin(), w.span().end(), 0.0f);
    size_t i = 0;
    for (const auto& [key, times] : found) {
      for (uint32_t c = 0; c < kSumDim; ++c) {
        const float x = sums[i * kSumDim + c];
        sum.span()[i * kSumDim + c] =
            0.3f * x -
            0.01f * static_cast<float>(mix(static_cast<uint64_t>(key), origin.minibatch + c) % 97) +
            0.1f * dense[c];
        w.span()[c] += 0.05f * x - 0.001f * static_cast<float>(times);
      }
      count.span()[i++] = -static_cast<float>(times);
    }
    gradients = {{0, unique, sum.span()}, {1, unique, count.span()}};
    this->dense = w.span();
  }
};

class SimulatedJob {
 public:
  using Network = SimulatedNetwork;
  using Duration = Network::Duration;
  static constexpr char kCheckpoint[] = "/model";

  // `host`: of an earlier job, with what that has left.
  SimulatedJob(const JobShape& shape, const Network::Options& options,
               std::shared_ptr<SimulatedHost> host = nullptr)
      : shape_(shape),
        host_(host ? std::move(host) : std::make_shared<SimulatedHost>(options.seed)),
        net_(options) {
    config_ = config();
    master_process_ = net_.add_process("master");
    master_ = spawn_master(net_.system(), config_);
    master_process_->serve<MasterInterface>(Destination::kMaster, caf::actor_cast<MasterActor>(master_));
    master_process_->start();
    for (uint32_t i = 0; i < shape_.shards; ++i) net_.after(a_moment(), [this] { start_owner(); });
    for (uint32_t i = 0; i < shape_.workers; ++i) net_.after(a_moment(), [this] { start_worker(); });
  }
  ~SimulatedJob() {
    for (const Owner& owner : owners_) owner.on_host->on_death = nullptr;
    for (const caf::strong_actor_ptr& actor : std::exchange(actors_, {}))
      caf::anon_send_exit(caf::actor_cast<caf::actor>(actor), caf::exit_reason::kill);
    caf::anon_send_exit(master_, caf::exit_reason::kill);
    for (const auto& owner : owners_)
      if (owner.handles.optimizer) end_owner(owner.handles);
    owners_.clear();
    workers_.clear();
    master_ = nullptr;
  }

  Network& network() { return net_; }
  // Nothing if the job has not ended after an hour, or nobody is left who could do anything.
  const std::optional<JobResult>& run() {
    net_.run_until([this] { return result_.has_value() || !master_on_host_->alive(); });
    return result_;
  }
  const std::shared_ptr<SimulatedHost>& host() const { return host_; }
  // Whether all workers end, too, once the job has ended.
  bool workers_end() {
    return net_.run_until(
        [this] {
          return std::none_of(workers_.begin(), workers_.end(),
                              [](const auto& w) { return w.process->alive(); });
        },
        std::chrono::minutes(2));
  }

  // --- what goes wrong ---------------------------------------------------------------------------

  void kill_some_worker() {
    std::vector<Worker*> alive;
    for (Worker& worker : workers_)
      if (worker.process->alive()) alive.push_back(&worker);
    if (alive.empty()) return;
    Worker& worker = *alive[net_.pick(alive.size())];
    net_.kill(*worker.process);
    if (worker.session) caf::anon_send_exit(worker.session, caf::exit_reason::kill);
    worker.session = nullptr;
    start_worker_later();
  }
  // As embers scale does, with somebody who then starts what is missing.
  void scale() {
    const uint32_t workers = 1 + static_cast<uint32_t>(net_.pick(4));
    net_.say("wanted: " + std::to_string(workers) + " workers");
    caf::anon_send(master_, make_message<wire::ScaleRequest>(
                                [&](wire::ScaleRequest::Builder b) { b.setWorkers(workers); }));
    follow_wanted();
  }
  // Somebody who may be there.
  void drain_some_worker() {
    const std::vector<std::string> names{"worker " + std::to_string(net_.pick(started_workers_ + 1))};
    caf::anon_send(master_, make_message<wire::DrainRequest>([&](wire::DrainRequest::Builder b) {
                     write_texts(b.initMembers(1), names);
                   }));
    follow_wanted();
  }
  void stall_some_worker() {
    if (workers_.empty()) return;
    net_.stall(*workers_[net_.pick(workers_.size())].process, net_.time_up_to(Duration(15000)));
  }
  void stall_master() { net_.stall(*master_process_, net_.time_up_to(Duration(3000))); }
  void kill_some_owner() {
    if (Owner* const owner = some_owner()) owner->on_host->kill();
  }
  // With everybody else. In the middle of what it writes, or sooner.
  void kill_master_at_work(uint64_t changes) { master_on_host_->kill_after(changes); }
  // In the middle of what it writes, soon.
  void kill_some_owner_at_work() {
    if (Owner* const owner = some_owner()) owner->on_host->kill_after(net_.pick(40));
  }
  // All owners are on it. What they had not synced goes with it.
  void kill_host_of_owners() {
    if (some_owner() == nullptr) return;
    owners_host_.die();
    host_died_ = true;
  }
  bool host_of_owners_died() const { return host_died_; }
  void stall_some_owner() {
    if (Owner* const owner = some_owner()) net_.stall(*owner->process, net_.time_up_to(Duration(15000)));
  }
  void break_some_connection() {
    net_.break_one([](const Network::Process&, const Network::Process&) { return true; });
  }

  // --- what came out -----------------------------------------------------------------------------

  // All rows of a table, by key: their bits.
  std::map<std::string, std::vector<uint32_t>> rows() {
    std::map<std::string, std::vector<uint32_t>> all;
    caf::scoped_actor self{net_.system()};
    const std::vector<OwnerHandles> owners = all_owners();
    for (uint32_t number = 0; number < owners.size(); ++number)
      for (TableId table = 0; table < config_->model.tables.size(); ++table) {
        const TableSpec& spec = config_->model.tables[table];
        const bool split = is_split(spec, owners.size());
        const auto reply = ask(self.ptr(), owners[number].shard,
                               make_message<wire::ScanRequest>([&](wire::ScanRequest::Builder b) {
                                 b.setTable(table);
                                 b.setLimit(100000);
                               }));
        for (const TableSlices& t : read_slices(reply.get().getRows(), config_->model.tables.size()))
          for (size_t i = 0; i < t.keys.size(); ++i) {
            auto& bits = all[name_of_row(table, t.keys, i)];
            // Columns that are missing in a row are those of owners that have not made it yet.
            if (split && bits.size() != columns_of(spec.dim, number, shape_.shards).begin) continue;
            for (const float x : t.values.subspan(i * t.width, t.width))
              bits.push_back(std::bit_cast<uint32_t>(x));
          }
      }
    std::erase_if(all, [&](const auto& row) {
      const std::string table = row.first.substr(0, row.first.find(' '));
      return row.second.size() != config_->model.tables[config_->model.table_id(table)].dim;
    });
    return all;
  }
  // All rows of the checkpoint, as rows() gives them. Empty without one.
  std::map<std::string, std::vector<uint32_t>> saved_rows() {
    std::map<std::string, std::vector<uint32_t>> all;
    const auto process = host_->start();
    if (!process->exists(kCheckpoint + std::string("/manifest.json"))) return all;
    const auto reader = storage::CheckpointReader::open(kCheckpoint, *process);
    for (TableId table = 0; table < config_->model.tables.size(); ++table)
      reader->read(table, 100000, [&](KeysView keys, std::span<const float> values) {
        const size_t width = values.size() / keys.size();
        for (size_t i = 0; i < keys.size(); ++i)
          for (const float x : values.subspan(i * width, config_->model.tables[table].dim))
            all[name_of_row(table, keys, i)].push_back(std::bit_cast<uint32_t>(x));
      });
    return all;
  }
  // What "count" must hold.
  std::map<int64_t, float> counts() const {
    std::map<int64_t, float> all;
    for (uint64_t epoch = 1; epoch <= shape_.epochs; ++epoch)
      for (uint64_t m = 0; m < shape_.minibatches; ++m)
        for (uint64_t r = 0; r < kRecords; ++r)
          for (const int64_t key : keys_of_record(false, epoch, m, r)) ++all[key];
    return all;
  }
  const std::string& events() const { return events_; }
  // Workers that were told to leave while the job went on.
  uint64_t drained() const {
    uint64_t count = 0;
    const std::string what = "is to finish what it holds";
    for (size_t at = events_.find(what); at != std::string::npos; at = events_.find(what, at + 1)) ++count;
    return count;
  }
  uint64_t worker_processes() const { return started_workers_; }
  uint64_t owners_that_came_back() const { return came_back_; }

 private:
  struct Owner {
    Network::ProcessPtr process;
    SimulatedHost::ProcessPtr on_host;
    OwnerHandles handles;  // once it has joined, while it lives
    caf::actor life;
    uint32_t number = 0;
    bool told_to_end = false;
  };
  struct Worker {
    Network::ProcessPtr process;
    SessionActor session;
  };

  std::string name_of_row(TableId table, KeysView keys, size_t i) const {
    return config_->model.tables[table].name + " " +
           (keys.kind == KeyKind::kInt64 ? std::to_string(keys.ints[i]) : std::string("w"));
  }

  static ModelSpec model() {
    ModelSpec model{
        {table("sum", kSumDim), table("count", 1), table(kDenseTable, kDenseChunk, KeyKind::kBytes)},
        {{"w", {kSumDim}, false}}};
    model.tables[0].initializer = {"uniform", {}};
    model.tables[0].update_rule = {"adagrad", {{"learning_rate", 0.1}}};
    model.tables[2].update_rule = {"sgd", {{"learning_rate", 0.1}}};
    return model;
  }

  job::Job job() const {
    job::Job job;
    job.job.heartbeat_timeout = 10;
    job.job.worker_timeout = 600;
    auto& training = job.training;
    training.mode = shape_.mode;
    training.reduction = job::Reduction::kSum;
    training.epochs = shape_.epochs;
    training.workers = shape_.workers;
    training.grads_to_wait = shape_.grads_to_wait;
    training.batch_size = kRecords;
    training.prefetch = shape_.prefetch;
    training.minibatches_per_lease = shape_.minibatches_per_lease;
    training.cache_rows = shape_.cache_rows;
    training.staleness_bound = 2;
    job.storage.buckets = 16;
    job.storage.shards = shape_.shards;
    if (shape_.rows_in_servers) {
      job.storage.backend = "redis";
      job.storage.journal = "/journal";
    }
    return job;
  }
  std::shared_ptr<MasterConfig> config() {
    auto config = master_config(job(), model(), shape_.minibatches, shape_.test_minibatches);
    for (TableId table : {0, 1}) config->model.tables[table].partition = shape_.partition;
    config->disk = master_on_host_.get();
    config->save_every = shape_.save_every;
    if (shape_.save_every > 0) config->output = kCheckpoint;
    if (shape_.resumes && master_on_host_->exists(kCheckpoint + std::string("/manifest.json")))
      config->resume = kCheckpoint;
    config->connect_owner = [this](const auto&, const std::vector<std::string>& endpoints, const auto&...) {
      return connect_owner(*master_process_, wire::Role::MASTER, endpoints.at(0));
    };
    config->drop_owner = drop_owner;
    config->on_event = [this](const std::string& line) {
      events_ += line + "\n";
      net_.say("master: " + line);
      // As the line tells people to. With rows in servers, one is started again anyway.
      if (line.starts_with("refused shard") && !shape_.rows_in_servers) start_owner_later();
    };
    config->on_end = [this](JobResult result) {
      net_.say("master: the job ends" + (result.error ? std::string(": ") + result.error->what() : ""));
      const Error farewell = result.error ? Error(ErrorCode::kJobFailed, result.error->what())
                                          : Error(ErrorCode::kEnded, "the job has ended");
      result_ = std::move(result);
      net_.after(a_moment(), [this, farewell] { net_.leave(*master_process_, farewell); });
    };
    return config;
  }

  // As remote_owner() does.
  OwnerHandles connect_owner(Network::Process& client, wire::Role role, const std::string& name) {
    Network::Process& server = *net_.find(name);
    const auto link = [&] {
      const auto connected = net_.connect(client, server, role);
      connected->keep();
      return connected;
    };
    const auto bulk = link();
    const auto control = role == wire::Role::MASTER ? link() : bulk;
    return {control->proxy<OptimizerInterface>(Destination::kOptimizer),
            bulk->proxy<ShardInterface>(Destination::kShard), KeysSent::kPacked};
  }
  static void drop_owner(const OwnerHandles& owner) { drop_remote_owner(owner, "the owner is given up"); }
  MasterActor connect_master(Network::Process& client, wire::Role role) {
    const auto link = net_.connect(client, *master_process_, role);
    link->keep();
    return link->proxy<MasterInterface>(Destination::kMaster);
  }
  Duration a_moment() { return net_.time_up_to(Duration(20)); }

  // --- owners ------------------------------------------------------------------------------------

  void start_owner_later() {
    net_.after(net_.time_up_to(Duration(2000)), [this] {
      if (result_) return;
      start_owner();
      if (net_.chance(0.3)) owners_.back().on_host->kill_after(net_.pick(60));  // while it recovers
    });
  }
  void start_owner() {
    const size_t index = owners_.size();
    const std::string name = "shard" + std::to_string(index);
    owners_.push_back({net_.add_process(name), owners_host_.start(), {}, {}, 0, false});
    owners_[index].on_host->on_death = [this, index] { owner_died(index); };
    const MasterActor master = connect_master(*owners_[index].process, wire::Role::OWNER);
    const auto joins = [this, index, name](caf::event_based_actor* self, const MasterActor& at) {
      self->request(at, caf::infinite, make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
                      b.setRole(wire::Role::OWNER);
                      b.setHost(name);
                      b.setToken(1000 + index);
                      write_texts(b.initEndpoints(1), std::vector<std::string>{name});
                    }))
          .then([this, index, at](const Message<wire::JoinReply>& m) { owner_joined(index, at, m.get()); },
                [this, index](caf::error&) { owner_ends(index); });
    };
    net_.system().spawn(joins, master);
  }
  void owner_joined(size_t index, const MasterActor& master, wire::JoinReply::Reader reply) {
    if (!owners_[index].process->alive()) return;
    OwnerConfig config = owner_config_of(index, reply.getNumber());
    config.map = read_owner_map(reply, shape_.shards);
    config.takes_over = reply.getTakesOver();
    config.on_end = [this, index](bool, const std::string&) {
      owners_[index].told_to_end = true;
      owner_ends(index);
    };
    const auto life =
        spawn_owner_life(net_.system(), master, reply.getIncarnation(), "the master", config.activity,
                         [this, index](const std::optional<Error>&) { owner_ends(index); });
    owners_[index].life = caf::actor_cast<caf::actor>(life);
    actors_.push_back(caf::actor_cast<caf::strong_actor_ptr>(life));
    if (!make_owner(index, config)) return;
    came_back_ += config.takes_over;
    Owner& owner = owners_[index];
    owner.process->serve<OptimizerInterface>(Destination::kOptimizer, owner.handles.optimizer);
    owner.process->serve<ShardInterface>(Destination::kShard, owner.handles.shard);
    owner.process->start();
  }
  OwnerConfig owner_config_of(size_t index, uint32_t number) {
    OwnerConfig config = owner_config(shape_.mode == job::Mode::kSync, config_->model.tables);
    config.number = owners_[index].number = number;
    if (!shape_.rows_in_servers) return config;
    config.backend = config_->job.storage.backend;
    config.external = {"job", config_->run, number, config_->job.storage.journal,
                       owners_[index].on_host.get()};
    config.connect_servers = [this, process = owners_[index].on_host] { return servers_.connect(process); };
    return config;
  }
  // Its process may die of it, or end because the one before still has the journal.
  bool make_owner(size_t index, const OwnerConfig& config) {
    try {
      owners_[index].handles = spawn_owner(net_.system(), config);
      return true;
    } catch (const Died&) {
    } catch (const Error& error) {
      net_.say(owners_[index].process->name() + ": " + error.what());
      owner_ends(index);
    }
    return false;
  }
  // What it has sent still arrives.
  void owner_ends(size_t index) {
    net_.after(a_moment(), [this, index] {
      net_.leave(*owners_[index].process);
      if (shape_.rows_in_servers && !owners_[index].told_to_end) owners_[index].on_host->kill();
    });
  }
  void owner_died(size_t index) {
    Owner& owner = owners_[index];
    net_.kill(*owner.process);
    if (owner.life) caf::anon_send_exit(owner.life, caf::exit_reason::kill);
    if (owner.handles.optimizer) {
      caf::anon_send_exit(owner.handles.optimizer, caf::exit_reason::kill);
      caf::anon_send_exit(owner.handles.shard, caf::exit_reason::kill);
      owner.handles = {};
    }
    start_owner_later();
  }
  // One that was started. With a journal, only from the first minibatch to the last: the job waits for a lost
  // owner then.
  Owner* some_owner() {
    std::vector<Owner*> joined;
    for (Owner& owner : owners_)
      if (owner.handles.optimizer && owner.process->alive()) joined.push_back(&owner);
    if (joined.empty() || (shape_.rows_in_servers && (!trained_ || some_worker_ended_))) return nullptr;
    return joined[net_.pick(joined.size())];
  }
  // In the order of their numbers. Those that were dead when the job ended are back.
  std::vector<OwnerHandles> all_owners() {
    std::vector<OwnerHandles> all(shape_.shards);
    for (const Owner& owner : owners_) {
      owner.on_host->kill_after(UINT64_MAX);
      if (owner.handles.shard) all.at(owner.number) = owner.handles;
    }
    for (uint32_t number = 0; number < shape_.shards; ++number) {
      if (all[number].shard) continue;
      owners_.push_back({net_.add_process("reader"), owners_host_.start(), {}, {}, number, true});
      OwnerConfig config = owner_config_of(owners_.size() - 1, number);
      config.map = even_owner_map(shape_.shards, config_->job.storage.buckets);
      config.takes_over = true;
      all[number] = owners_.back().handles = spawn_owner(net_.system(), config);
    }
    return all;
  }

  // --- workers -----------------------------------------------------------------------------------

  // As a launcher does, from now on: starts the workers that are missing.
  void follow_wanted() {
    if (!std::exchange(follows_, true)) look_at_wanted();
  }
  void look_at_wanted() {
    if (result_) return;
    const auto look = [this](caf::event_based_actor* self, const MasterActor& master) {
      self->request(master, caf::infinite, make_message<wire::StatusRequest>())
          .then(
              [this](const Message<wire::StatusReply>& m) {
                const auto workers = m.get().getWorkers();
                for (uint64_t i = workers.getJoined(); i < workers.getWanted() && !result_; ++i)
                  net_.after(a_moment(), [this] { start_worker("launched"); });
              },
              [](caf::error&) {});
    };
    net_.system().spawn(look, caf::actor_cast<MasterActor>(master_));
    net_.after(Duration(2000), [this] { look_at_wanted(); });
  }
  void start_worker_later() {
    net_.after(net_.time_up_to(Duration(2000)), [this] {
      if (!result_) start_worker();
    });
  }
  void start_worker(const std::string& label = "") {
    const auto process = net_.add_process("worker" + std::to_string(started_workers_++));
    auto config = std::make_shared<SessionConfig>();
    config->job = config_->job;
    config->run = config_->run;
    config->master = connect_master(*process, wire::Role::WORKER);
    config->master_name = "the master";
    config->host = process->name();
    config->token = started_workers_;
    config->label = label;
    config->model = config_->model;
    config->parts.make_work = [] { return std::make_shared<SumWork>(); };
    config->parts.read = [this](caf::actor_system&, const StageActor& next, const StageOwner&) {
      return spawn_part(next, [](SumWork& work) { work.read(); });
    };
    config->parts.train = [this](caf::actor_system&, const auto&, const StageActor& next, const StageOwner&) {
      return spawn_part(next, [this](SumWork& work) {
        trained_ = true;
        if (!work.refused) work.train();
      });
    };
    config->parts.holds_works = started_workers_ % 2 == 0;  // as a program's; or as a worker process's
    config->connect_owner = [this, process](size_t, const std::vector<std::string>& endpoints, const auto&,
                                            uint64_t) {
      return connect_owner(*process, wire::Role::WORKER, endpoints.at(0));
    };
    config->drop_owner = drop_owner;
    config->on_end = [this, process](const std::optional<Error>& error) {
      if (!process->alive()) return;
      some_worker_ended_ |= !error.has_value() && drains_++ >= drained();
      net_.say(process->name() + " is done" + (error ? std::string(": ") + error->what() : ""));
      net_.after(a_moment(), [this, process, failed = error.has_value()] {
        if (!process->alive()) return;
        net_.leave(*process);
        if (failed) start_worker_later();
      });
    };
    workers_.push_back({process, {}});
    workers_.back().session = spawn_session(net_.system(), config);
  }

  // Takes some time for each work, one after another.
  StageActor spawn_part(const StageActor& next, std::function<void(SumWork&)> does) {
    const auto behavior = [](StageActor::pointer self, SimulatedJob* job, const StageActor& after,
                             const std::function<void(SumWork&)>& work_on) -> StageActor::behavior_type {
      const auto idle_from = std::make_shared<Network::Time>();
      return {[=](const WorkPtr& work) {
        work_on(static_cast<SumWork&>(*work));
        *idle_from = std::max(*idle_from, job->net_.now()) + job->net_.time_up_to(Duration(60));
        self->delayed_send(after, std::chrono::ceil<Duration>(*idle_from - job->net_.now()), work);
      }};
    };
    return net_.system().spawn(behavior, this, next, std::move(does));
  }

  const JobShape shape_;
  const std::shared_ptr<SimulatedHost> host_;
  const SimulatedHost::ProcessPtr master_on_host_ = host_->start();
  SimulatedServers servers_{2};
  SimulatedHost owners_host_{mix(host_->pick(UINT64_MAX), 1)};
  bool host_died_ = false;
  bool trained_ = false, some_worker_ended_ = false;  // the latter at the end of the job
  uint64_t drains_ = 0;
  bool follows_ = false;  // the wanted number of workers
  uint64_t came_back_ = 0;
  std::optional<JobResult> result_;
  std::string events_;
  uint64_t started_workers_ = 0;
  std::shared_ptr<MasterConfig> config_;
  std::vector<caf::strong_actor_ptr> actors_;
  std::vector<Owner> owners_;
  std::vector<Worker> workers_;
  Network net_;
  Network::ProcessPtr master_process_;
  LocalMasterActor master_;
};

}  // namespace embers::testing_support
