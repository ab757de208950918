#pragma once

// A job of a master and real owners, and workers whose every step the test takes, simulated.
#include <gtest/gtest.h>

#include <future>

#include "actors/ask.h"
#include "master/master.h"
#include "tests/support/actors.h"
#include "tests/support/simulation.h"

namespace embers::testing_support {

using namespace std::chrono_literals;
using Lease = Message<wire::LeaseReply>;
using Kinds = wire::LeaseReply::Kind;

struct Options {
  job::Mode mode = job::Mode::kAsync;
  uint32_t minibatches = 3, test_minibatches = 0, epochs = 1, workers = 1, grads_to_wait = 1;
  double heartbeat_timeout = 30, worker_timeout = 30;
  std::string output = {}, resume = {};
  uint32_t shards = 1;
  std::vector<std::string> settings = {};
  uint32_t staleness_bound = 0;
  std::string journal = {};  // of owners
  double owner_timeout = 60;
  double lease_timeout = 0;
  std::function<void(MasterConfig&)> change = {};  // the last word on the config
};

class Job {
 public:
  explicit Job(const Options& options = {}) {
    auto config = std::make_shared<MasterConfig>();
    config->run = 7;
    config->model.tables = {table("a", 1)};
    config->dense = config->buffers = std::make_shared<FloatBuffer>();
    job::Job& job = config->job;
    job.job.heartbeat_timeout = options.heartbeat_timeout;
    job.job.worker_timeout = options.worker_timeout;
    job.job.lease_timeout = options.lease_timeout;
    job.training.mode = options.mode;
    job.training.epochs = options.epochs;
    job.training.grads_to_wait = options.grads_to_wait;
    job.training.minibatches_per_lease = 2;
    job.training.staleness_bound = options.staleness_bound;
    job.storage.buckets = 16;
    config->workers = options.workers;
    config->train_minibatches = options.minibatches;
    config->train_records = 10 * options.minibatches;
    config->shards = options.shards;
    config->settings = options.settings;
    config->test_minibatches = options.test_minibatches;
    config->output = options.output;
    config->resume = options.resume;
    OwnerConfig owner = owner_config(options.mode == job::Mode::kSync, config->model.tables);
    owner.map = even_owner_map(options.shards, 16);
    for (owner.number = 0; owner.number < options.shards; ++owner.number)
      owners_.push_back(spawn_owner(system_, owner));
    config->local_owners = owners_;
    job.storage.journal = options.journal;
    job.storage.owner_timeout = options.owner_timeout;
    if (options.change) options.change(*config);
    config->on_end = [this](JobResult result) { ended_.set_value(std::move(result)); };
    master_ = spawn_master(system_, config);
  }
  ~Job() {
    caf::anon_send_exit(master_, caf::exit_reason::user_shutdown);
    for (const OwnerHandles& owner : owners_) end_owner(owner);
  }
  JobResult result() {
    if (!system_.run_until([&] { return has_ended(); })) throw std::runtime_error("the job did not end");
    return end_.get();
  }
  bool has_ended() const { return end_.wait_for(0s) == std::future_status::ready; }
  void stop() { caf::anon_send(master_, stop_atom::value, std::string("SIGINT")); }

  std::promise<JobResult> ended_;  // the master may still set it while the system ends
  std::future<JobResult> end_ = ended_.get_future();
  Simulation system_;
  std::vector<OwnerHandles> owners_;
  LocalMasterActor master_;
};

class Worker {
 public:
  explicit Worker(Job& job, bool join_now = true) : job_(job), self_(job.system_) {
    if (join_now) join();
  }
  void join(std::vector<std::string> model = {}, const std::vector<std::string>& settings = {},
            const std::vector<std::string>& numeric = {}, const std::string& label = {}) {
    if (model.empty()) model = signature({{table("a", 1)}, {}});
    const auto reply =
        ask(self_.ptr(), job_.master_, make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
              b.setRole(wire::Role::WORKER);
              b.setHost("here");
              b.setLabel(label);
              write_texts(b.initModel(static_cast<unsigned>(model.size())), model);
              write_texts(b.initSettings(static_cast<unsigned>(settings.size())), settings);
              write_texts(b.initNumeric(static_cast<unsigned>(numeric.size())), numeric);
            }));
    incarnation_ = reply.get().getIncarnation();
  }
  Message<wire::LeaseRequest> lease_request() const {
    return make_message<wire::LeaseRequest>(
        [&](wire::LeaseRequest::Builder b) { b.setIncarnation(incarnation_); });
  }
  Lease lease() { return ask(self_.ptr(), job_.master_, lease_request()); }
  // A lease that may take a while to come.
  Later<wire::LeaseRequest> lease_later() { return {job_.system_, job_.master_, lease_request()}; }
  Later<wire::OrderRequest> order_later(uint64_t received = 0) {
    return {job_.system_, job_.master_, make_message<wire::OrderRequest>([&](wire::OrderRequest::Builder b) {
              b.setIncarnation(incarnation_);
              b.setReceived(received);
            })};
  }
  void push(const Lease& lease, unsigned i) {
    for (size_t owner = 0; owner < job_.owners_.size(); ++owner) push_to(owner, lease, i);
  }
  void push_to(size_t owner, const Lease& lease, unsigned i) {
    Origin o = origin(lease.get().getMinibatches()[i].getMinibatch(), lease.get().getVersion(),
                      lease.get().getEpoch(), lease.get().getMinibatches()[i].getAttempt());
    o.incarnation = incarnation_;
    o.map_version = map_version;
    ask(self_.ptr(), job_.owners_[owner].optimizer, make_push(o, {}));
  }
  bool done(const Lease& lease, unsigned i, bool returned = false, float score = 0.5f) {
    const auto part = lease.get().getMinibatches()[i];
    const std::vector<float> scores(10, score), labels(10, static_cast<float>(part.getMinibatch() % 2));
    const std::vector<uint64_t> records(10, part.getMinibatch());
    return ask(self_.ptr(), job_.master_, make_message<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
                 b.setIncarnation(incarnation_);
                 b.setLease(lease.get().getLease());
                 b.setMinibatch(part.getMinibatch());
                 b.setAttempt(part.getAttempt());
                 b.setReturned(returned);
                 b.setExamples(10);
                 b.setLossSum(5);
                 b.setScores(as_data(scores));
                 b.setLabels(as_data(labels));
                 b.setRecords(as_data(std::span<const uint64_t>(records)));
               }))
        .get()
        .getAccepted();
  }
  void finish(const Lease& lease) {
    for (unsigned i = 0; i < lease.get().getMinibatches().size(); ++i) {
      if (lease.get().getKind() == Kinds::TRAIN) push(lease, i);
      EXPECT_TRUE(done(lease, i));
    }
  }
  void leave() {
    ask(self_.ptr(), job_.master_, make_message<wire::LeaveRequest>([&](wire::LeaveRequest::Builder b) {
          b.setIncarnation(incarnation_);
        }));
  }
  void beat() {
    ask(self_.ptr(), job_.master_,
        make_message<wire::HeartbeatRequest>(
            [&](wire::HeartbeatRequest::Builder b) { b.setIncarnation(incarnation_); }));
  }
  void report_failure(ErrorCode code, const std::string& message) {
    ask(self_.ptr(), job_.master_, make_message<wire::FailRequest>([&](wire::FailRequest::Builder b) {
          b.setIncarnation(incarnation_);
          b.setCode(static_cast<uint8_t>(code));
          b.setMessage(message);
        }));
  }
  uint64_t incarnation() const { return incarnation_; }
  uint32_t map_version = 1;  // that it routes by

  // All work until the end of the job; returns the minibatches it did.
  std::vector<uint64_t> work_to_the_end() {
    std::vector<uint64_t> minibatches;
    for (Lease l = lease(); l.get().getKind() != Kinds::END; l = lease()) {
      for (const auto part : l.get().getMinibatches()) minibatches.push_back(part.getMinibatch());
      finish(l);
    }
    leave();
    return minibatches;
  }

 private:
  Job& job_;
  caf::scoped_actor self_;
  uint64_t incarnation_ = 0;
};

}  // namespace embers::testing_support
