#pragma once

// A running job that programs of other processes can join: a master and owners, each behind a server of its
// own.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>

#include "actors/ask.h"
#include "actors/transport/addresses/job_dir.h"
#include "actors/transport/server.h"
#include "base/host.h"
#include "client/session.h"
#include "job/job.h"
#include "tests/support/actors.h"
#include "tests/support/master_config.h"
#include "tests/support/process.h"

namespace embers::testing_support {

using namespace std::chrono_literals;

inline constexpr uint32_t kUserDim = 2;

struct JobOptions {
  std::string mode = "async";
  uint32_t shards = 2, workers = 1, minibatches = 4, test_minibatches = 0, epochs = 1;
  bool keeps_journal = false;  // a lost owner's next process takes its place
  double heartbeat_timeout = 30, lease_timeout = 0;
  Partition partition = Partition::kToken;  // of table "user"
  std::string secret_file = {};             // none: the job has no secret
  std::string server_password = {};
};

class RunningJob {
 public:
  explicit RunningJob(const JobOptions& options = {}) : options_(options) {
    const auto config = master_config(job::parse_job({"job.toml", text(), {}}), model(), options.minibatches,
                                      options.test_minibatches);
    config->model.tables[0].partition = options.partition;
    config->settings = job::settings(config->job.source);
    config->settings.push_back("eight records");
    config->server_login.password = options.server_password;
    config->connect_owner = [this](const auto&, const std::vector<std::string>& endpoints, const auto&...) {
      const std::lock_guard lock(mutex_);
      return owners_[number_at_.at(endpoints.at(0))];
    };
    config->on_event = [this](const std::string& line) {
      std::unique_lock lock(mutex_);
      events_ += line + "\n";
      held_ = hold_;
      released_.wait(lock, [this] { return !hold_; });
    };
    config->on_end = [this](JobResult result) { ended_.set_value(std::move(result)); };
    OwnerConfig owner = owner_config(options.mode == "sync", config->model.tables);
    owner.map = even_owner_map(options.shards, 16);
    for (owner.number = 0; owner.number < options.shards; ++owner.number)
      owners_.push_back(spawn_owner(system_, owner));
    processes_.resize(options.shards);
    master_ = spawn_master(system_, config);
    server_ = Server::listen(transport_, {parse_endpoint("127.0.0.1:0")}, {7, true});
    server_->serve<MasterInterface>(Destination::kMaster, caf::actor_cast<MasterActor>(master_));
    server_->start();
    for (uint32_t shard = 0; shard < options.shards; ++shard) start_owner(shard);
  }
  ~RunningJob() {
    release();
    caf::anon_send_exit(master_, caf::exit_reason::user_shutdown);
    transport_.stop();
    for (uint32_t shard = 0; shard < options_.shards; ++shard) stop_owner(shard);
    for (const OwnerHandles& owner : owners_) end_owner(owner);
  }

  static ModelSpec model() {
    ModelSpec model{{table("user", kUserDim), table("word", 1, KeyKind::kBytes),
                     table(kDenseTable, kDenseChunk, KeyKind::kBytes)},
                    {{"w", {3}, false}}};
    model.tables[0].initializer = {"uniform", {}};
    return model;
  }
  std::string address() const { return server_->endpoints()[0].text(); }
  Endpoint endpoint() const { return server_->endpoints()[0]; }
  Endpoint owner_endpoint(uint32_t shard) const { return processes_[shard].server->endpoints()[0]; }
  std::string password_of_owner(uint32_t shard) const { return processes_[shard].password; }
  client::Options options() const {
    return {.master = address(), .secret_file = options_.secret_file, .connect_timeout = 20s, .timeout = 20s};
  }
  client::WorkerOptions worker_options() const {
    client::WorkerOptions worker;
    static_cast<client::Options&>(worker) = options();
    worker.tables = {{"user", kUserDim, client::KeyType::kInt64}, {"word", 1, client::KeyType::kBytes}};
    worker.parameters = {{"w", {3}}};
    worker.numeric = {"threads=1"};
    worker.data = {"eight records"};
    return worker;
  }

  // The next process of a shard: it holds what the one before held.
  void start_owner(uint32_t shard) {
    OwnerProcess& process = processes_[shard];
    process.transport = std::make_unique<Transport>(system_, credentials_);
    process.server = Server::listen(*process.transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
    process.server->serve<OptimizerInterface>(Destination::kOptimizer, owners_[shard].optimizer);
    process.server->serve<ShardInterface>(Destination::kShard, owners_[shard].shard);
    process.server->start();
    const std::vector<std::string> endpoints{process.server->endpoints()[0].text()};
    {
      const std::lock_guard lock(mutex_);
      number_at_[endpoints[0]] = shard;
    }
    process.member = std::make_unique<caf::scoped_actor>(system_);
    const auto reply = ask(process.member->ptr(), master_,
                           make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
                             b.setRole(wire::Role::OWNER);
                             b.setHost("there");
                             b.setBootId(boot_id());
                             write_texts(b.initEndpoints(1), endpoints);
                           }));
    process.password = reply.get().getServerPassword();
  }
  void stop_owner(uint32_t shard) {
    processes_[shard].member.reset();
    processes_[shard].server.reset();
    if (processes_[shard].transport) processes_[shard].transport->stop();
    processes_[shard].transport.reset();
  }
  // From the next event on the master is stuck, until release().
  void hold() {
    const std::lock_guard lock(mutex_);
    hold_ = true;
  }
  bool is_held() {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    hold_ = false;
    released_.notify_all();
  }
  // As when its process is killed: nobody listens any more.
  void lose_master() {
    server_->stop();
    transport_.stop();
  }
  // As `embers master` goes when the job has ended.
  void end_master() {
    server_->stop();
    server_->dismiss(Error(ErrorCode::kEnded, "the job 'live' has ended"));
    transport_.stop();
  }
  bool has_event(const std::string& text) {
    return wait_until(
        [&] {
          const std::lock_guard lock(mutex_);
          return events_.find(text) != std::string::npos;
        },
        20);
  }
  JobResult result() {
    auto future = ended_.get_future();
    if (future.wait_for(20s) != std::future_status::ready) throw std::runtime_error("the job did not end");
    return future.get();
  }
  void stop() { caf::anon_send(master_, stop_atom::value, std::string("SIGINT")); }

  // What the owner of the key holds, or would begin with: another way than the session's.
  std::vector<float> row(const std::string& name, const Keys& key) {
    const ModelSpec spec = model();
    const TableId id = spec.table_id(name);
    const TableSlices slices{id, key, 0, {}};
    caf::scoped_actor self{system_};
    Origin from = origin(0);
    from.map_version = map_version;
    const auto reply =
        ask(self.ptr(), owners_[owner_of(even_owner_map(options_.shards, 16), hash_key(key, 0))].shard,
            make_pull(from, wire::ReadMode::LATEST, false, {&slices, 1}));
    const auto floats = read_rows(reply.get(), 0, {id, spec.tables[id].dim, 1});
    return {floats.begin(), floats.end()};
  }
  uint64_t rows() {
    caf::scoped_actor self{system_};
    uint64_t sum = 0;
    for (const OwnerHandles& owner : owners_)
      sum += ask(self.ptr(), owner.optimizer, make_message<wire::StatsRequest>()).get().getRows();
    return sum;
  }
  caf::actor_system& system() { return system_; }
  const LocalMasterActor& master() const { return master_; }
  const OwnerHandles& owner(size_t shard) const { return owners_[shard]; }

  uint32_t map_version = 1;

 private:
  struct OwnerProcess {
    std::unique_ptr<Transport> transport;
    std::shared_ptr<Server> server;
    std::unique_ptr<caf::scoped_actor> member;  // as which it joined
    std::string password;                       // of the job's servers, as it was told
  };

  std::string text() const {
    return "[job]\nname = \"live\"\nheartbeat_timeout = " + std::to_string(options_.heartbeat_timeout) +
           "\nlease_timeout = " + std::to_string(options_.lease_timeout) +
           "\n[model]\nname = \"m\"\n[data]\ntrain = \"t.csv\"\ncolumns = [{ name = \"k\", type = \"int\" "
           "}]\n"
           "[features]\nk = { as = \"categorical\", keys = \"int64\" }\n"
           "[optimizer]\nname = \"sgd\"\nlearning_rate = 1.0\n[training]\nreduction = \"sum\"\nbatch_size = "
           "2\n"
           "prefetch = 2\nminibatches_per_lease = 2\nworkers = " +
           std::to_string(options_.workers) + "\nepochs = " + std::to_string(options_.epochs) +
           "\nmode = \"" + options_.mode +
           "\"\n[storage]\nbuckets = 16\nshards = " + std::to_string(options_.shards) +
           (options_.keeps_journal ? "\nbackend = \"memcached\"\njournal = \"journal\"\n" : "\n");
  }

  const JobOptions options_;
  const Credentials credentials_{options_.secret_file.empty() ? Secret() : read_secret(options_.secret_file),
                                 false};
  std::promise<JobResult> ended_;  // the master may still set it while the system ends
  std::mutex mutex_;
  std::condition_variable released_;
  bool hold_ = false, held_ = false;  // guarded by mutex_, as all below
  std::string events_;
  std::map<std::string, uint32_t> number_at_;  // shard by endpoint
  System system_;
  Transport transport_{system_, credentials_};
  std::vector<OwnerHandles> owners_;
  std::vector<OwnerProcess> processes_;
  LocalMasterActor master_;
  std::shared_ptr<Server> server_;
};

}  // namespace embers::testing_support
