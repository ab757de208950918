// A worker between a master that follows a script and a real owner, simulated. The model counts records: see
// support/probe_model.cc.
#include "worker/worker.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <utility>

#include "actors/ask.h"
#include "model/step.h"
#include "tests/support/actors.h"
#include "tests/support/paths.h"
#include "tests/support/simulation.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;
using Kinds = wire::LeaseReply::Kind;

struct Done {
  uint64_t minibatch;
  bool returned;
  uint64_t examples;
};

// What the master does, and what it was told.
struct Script {
  std::vector<uint64_t> leases;  // minibatches to be given, one a lease; then END
  Kinds kind = Kinds::TRAIN;
  bool hold_done = false;  // answers to "done" wait until this is false and the next heartbeat comes

  size_t leased = 0;
  std::vector<Done> done;
  std::vector<std::string> failures;
  int left = 0, owners_asked = 0, orders_asked = 0;
  std::optional<caf::typed_response_promise<Message<wire::OrderReply>>> order;  // is waited for
  std::optional<Message<wire::OrderReply>> next_order;  // answers that at the next lease
  std::vector<caf::typed_response_promise<Message<wire::DoneReply>>> held;
};

Message<wire::DoneReply> accepted() {
  return make_message<wire::DoneReply>([](wire::DoneReply::Builder b) { b.setAccepted(true); });
}

MasterActor::behavior_type scripted_master(MasterActor::pointer self, std::shared_ptr<Script> script,
                                           std::vector<TableSpec> tables) {
  return {
      [](const Message<wire::JobRequest>&) { return make_message<wire::JobReply>(); },
      [tables](const Message<wire::JoinRequest>&) {
        return make_message<wire::JoinReply>([&](wire::JoinReply::Builder b) {
          b.setIncarnation(1);
          b.setMapVersion(1);
          auto list = b.initTables(static_cast<unsigned>(tables.size()));
          for (unsigned i = 0; i < tables.size(); ++i) write(list[i], tables[i]);
          b.initOwnerOfBucket(16);
          b.initOwners(1);
        });
      },
      [script](const Message<wire::LeaseRequest>&) {
        if (script->order && script->next_order)
          std::exchange(script->order, std::nullopt)
              ->deliver(*std::exchange(script->next_order, std::nullopt));
        return make_message<wire::LeaseReply>([&](wire::LeaseReply::Builder b) {
          b.setEpoch(1);
          if (script->leased == script->leases.size()) return b.setKind(Kinds::END);
          b.setKind(script->kind);
          auto part = b.initMinibatches(1)[0];
          part.setMinibatch(script->leases[script->leased++]);
          part.setAttempt(1);
        });
      },
      [](const Message<wire::BeginRequest>&) { return make_message<wire::BeginReply>(); },
      [script, self](const Message<wire::DoneRequest>& m) -> caf::result<Message<wire::DoneReply>> {
        const auto r = m.get();
        auto promise = self->make_response_promise<Message<wire::DoneReply>>();
        script->done.push_back({r.getMinibatch(), r.getReturned(), r.getExamples()});
        if (script->hold_done)
          script->held.push_back(promise);
        else
          promise.deliver(accepted());
        return promise;
      },
      [script](const Message<wire::HeartbeatRequest>&) {
        if (!script->hold_done)
          for (auto& promise : std::exchange(script->held, {})) promise.deliver(accepted());
        return make_message<wire::HeartbeatReply>([](wire::HeartbeatReply::Builder b) {
          b.setInterval(1);
          b.setTimeout(10);
        });
      },
      [script](const Message<wire::OwnersRequest>&) {
        ++script->owners_asked;
        return make_message<wire::OwnersReply>([](wire::OwnersReply::Builder b) {
          b.setMapVersion(2);
          b.initOwners(1)[0].initEndpoints(1).set(0, "elsewhere");
        });
      },
      [script, self](const Message<wire::OrderRequest>&) -> caf::result<Message<wire::OrderReply>> {
        ++script->orders_asked;
        script->order.emplace(self->make_response_promise<Message<wire::OrderReply>>());
        return *script->order;
      },
      [script](const Message<wire::FailRequest>& m) {
        script->failures.emplace_back(m.get().getMessage().cStr());
        return make_message<wire::Empty>();
      },
      [script](const Message<wire::LeaveRequest>&) {
        ++script->left;
        return make_message<wire::Empty>();
      },
      [](const Message<wire::StatusRequest>&) { return make_message<wire::StatusReply>(); },
      [](const Message<wire::ScaleRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::DrainRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::StopRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::CheckpointRequest>&) { return make_message<wire::CheckpointReply>(); },
  };
}

// Ten records of keys 0 to 3, two a minibatch.
constexpr char kRecords[] = "0\n1\n0\n2\n0\n1\n3\n0\n0\n2\n";

class WorkerTest : public testing::Test {
 protected:
  // The owner has seen `version` commits already when the worker starts; leases are of version 0.
  void start(bool sync = false, const std::string& records = kRecords, uint64_t version = 0) {
    std::ofstream(dir_ / "t.csv") << records;
    job_ = job::parse_job(
        {"job.toml",
         "[model]\nname = \"count\"\nlibrary = \"" + path_of(PROBE_MODEL) +
             "\"\n"
             "[data]\ntrain = \"t.csv\"\ntest = \"t.csv\"\ncolumns = [{ name = \"k\", type = \"int\" }]\n"
             "[features]\nk = { as = \"categorical\", keys = \"int64\" }\n"
             "[optimizer]\nname = \"sgd\"\nlearning_rate = 1.0\n"
             "[training]\nreduction = \"sum\"\nbatch_size = 2\nprefetch = 2\n",
         {sync ? "training.mode=sync" : "training.mode=async", "storage.backend=memcached",
          std::string("storage.journal=") + (owner_moves_ ? "journal" : "")}});
    job_.data.dir = dir_.path().string();
    auto config = std::make_shared<WorkerConfig>();
    config->runner = ModelRunner::make(job_);
    owner_ = spawn_owner(system_, owner_config(sync, config->runner->spec().tables));
    for (uint64_t v = 1; v <= version; ++v) commit(v);
    caf::actor_system& system = system_;
    master_ = system.spawn(scripted_master, script_, config->runner->spec().tables);
    config->job = job_;
    config->run = 7;
    config->master = master_;
    config->master_name = "the master";
    config->train = data::Dataset::open(job_, data::Split::kTrain, "");
    config->test = data::Dataset::open(job_, data::Split::kTest, "");
    OwnerConfig moved = owner_config(sync, config->runner->spec().tables);
    moved.map.version = 2;
    next_owner_ = spawn_owner(system_, moved);
    config->connect_owner = [owner = owner_, next = next_owner_](size_t, const auto& endpoints, const auto&,
                                                                 uint64_t) {
      return endpoints.empty() ? owner : next;
    };
    config->on_end = [this](const std::optional<Error>& error) { ended_ = error; };
    worker_ = spawn_worker(system_, config);
  }
  ~WorkerTest() override {
    caf::anon_send_exit(master_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(worker_, caf::exit_reason::kill);
    end_owner(owner_);
    end_owner(next_owner_);
  }
  std::optional<Error> end() {
    if (!system_.run_until([this] { return ended_.has_value(); }))
      throw std::runtime_error("the worker did not end");
    return *ended_;
  }
  std::vector<float> rows(const std::vector<int64_t>& ints) {
    caf::scoped_actor self{system_};
    const Keys keys(ints);
    const TableSlices slices{0, keys, 0, {}};
    const auto reply =
        ask(self.ptr(), owner_.shard, make_pull(origin(0), wire::ReadMode::LATEST, false, {&slices, 1}));
    const auto floats = read_rows(reply.get(), 0, {0, 1, ints.size()});
    return {floats.begin(), floats.end()};
  }
  void commit(uint64_t version) {
    caf::scoped_actor self{system_};
    ask(self.ptr(), owner_.optimizer,
        make_message<wire::CommitRequest>([&](wire::CommitRequest::Builder b) { b.setVersion(version); }));
  }

  TempDir dir_;
  std::optional<std::optional<Error>> ended_;  // the worker may still set it while the system ends
  Simulation system_;
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  job::Job job_;
  bool owner_moves_ = false;  // the job keeps a journal: a lost owner's next process takes its place
  OwnerHandles owner_, next_owner_;
  MasterActor master_;
  WorkerActor worker_;
};

TEST_F(WorkerTest, TrainsEveryRecordLeasedOnceAndLeavesAtTheEnd) {
  script_->leases = {0, 1, 2, 3, 4};
  start();
  const auto error = end();
  EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(rows({0, 1, 2, 3}), (std::vector<float>{5, 2, 2, 1}));
  EXPECT_EQ(script_->done.size(), 5);
  EXPECT_EQ(script_->left, 1);
}

TEST_F(WorkerTest, EvaluatesWithoutChangingOrCreatingAnything) {
  script_->leases = {0, 1, 2, 3, 4};
  script_->kind = Kinds::EVALUATE;
  start();
  EXPECT_FALSE(end());
  EXPECT_EQ(script_->done.size(), 5);
  EXPECT_EQ(script_->done[0].examples, 2);
  caf::scoped_actor self{system_};
  EXPECT_EQ(ask(self.ptr(), owner_.optimizer, make_message<wire::StatsRequest>()).get().getRows(), 0);
}

TEST_F(WorkerTest, HasNeverMoreUnderWayThanItsCredit) {
  script_->leases = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4};
  script_->hold_done = true;
  start();
  system_.pass(1min);
  EXPECT_EQ(script_->held.size(), 6u) << "three of which the master has not heard, and three more";
  EXPECT_EQ(script_->leased, 7u) << "one that is only read";
  script_->hold_done = false;
  EXPECT_FALSE(end());
  EXPECT_EQ(script_->done.size(), 10);
}

TEST_F(WorkerTest, GivesBackWorkThatAnOwnerRefusesAsStale) {
  script_->leases = {0};
  start(true, kRecords, 1);
  const auto error = end();
  EXPECT_FALSE(error) << error->what();
  ASSERT_EQ(script_->done.size(), 1);
  EXPECT_TRUE(script_->done[0].returned);
  EXPECT_TRUE(script_->failures.empty());
}

TEST_F(WorkerTest, GoesOnWithTheNextProcessOfAnOwnerThatIsLost) {
  owner_moves_ = true;
  script_->leases.assign(1000000, 0);
  start();
  ASSERT_TRUE(system_.run_until([&] { return script_->done.size() > 3; }));
  end_owner(owner_);
  ASSERT_TRUE(system_.run_until([&] { return script_->owners_asked > 0; }));
  const size_t before = script_->done.size();
  ASSERT_TRUE(system_.run_until([&] {
    size_t finished = 0;
    for (size_t i = before; i < script_->done.size(); ++i) finished += !script_->done[i].returned;
    return finished > 3;
  }));
  caf::anon_send(worker_, leave_atom::value);
  const auto error = end();
  EXPECT_FALSE(error) << error->what();
  EXPECT_TRUE(script_->failures.empty()) << script_->failures[0];
  caf::scoped_actor self{system_};
  EXPECT_EQ(ask(self.ptr(), next_owner_.optimizer, make_message<wire::StatsRequest>()).get().getMinibatches(),
            1)
      << "the same one again and again";
}

TEST_F(WorkerTest, TellsTheMasterOfBadDataAndEnds) {
  script_->leases = {0};
  start(false, "0\nx\n");
  const auto error = end();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInvalid);
  ASSERT_EQ(script_->failures.size(), 1);
  EXPECT_NE(script_->failures[0].find("t.csv:2"), std::string::npos) << script_->failures[0];
}

TEST_F(WorkerTest, LeavesWhenItIsAskedToWithWhatIsUnderWayFinished) {
  script_->leases.assign(1000000, 0);
  start();
  ASSERT_TRUE(system_.run_until([&] { return script_->done.size() > 3; }));
  caf::anon_send(worker_, leave_atom::value);
  EXPECT_FALSE(end());
  EXPECT_EQ(script_->left, 1);
}

TEST_F(WorkerTest, CarriesOutTheOrderToDrainAndAsksForOrdersUntilThen) {
  script_->leases.assign(1000000, 0);
  start();
  const auto answer = [&](uint64_t number, wire::OrderReply::Order order) {
    script_->next_order = make_message<wire::OrderReply>([&](wire::OrderReply::Builder b) {
      b.setNumber(number);
      b.setOrder(order);
    });
  };
  for (int i = 1; i <= 3; ++i) {  // the master has nothing to say, or what this worker does not know yet
    ASSERT_TRUE(system_.run_until([&] { return script_->order && script_->orders_asked == i; }));
    answer(i / 3, i < 3 ? wire::OrderReply::Order::NONE : wire::OrderReply::Order::EVALUATE);
  }
  const size_t before = script_->done.size();
  ASSERT_TRUE(
      system_.run_until([&] { return script_->orders_asked == 4 && script_->done.size() > before + 3; }));
  answer(2, wire::OrderReply::Order::DRAIN);
  EXPECT_FALSE(end());
  EXPECT_EQ(script_->left, 1);
  EXPECT_EQ(script_->orders_asked, 4);
  EXPECT_GE(script_->done.size() + 1, script_->leased) << "what it had begun is finished";
}

TEST_F(WorkerTest, NamesTheMasterItLost) {
  script_->leases.assign(1000000, 0);
  script_->hold_done = true;
  start();
  ASSERT_TRUE(system_.run_until([&] { return !script_->held.empty(); }));
  caf::anon_send_exit(master_, caf::exit_reason::kill);
  const auto error = end();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kLost);
  EXPECT_NE(std::string(error->what()).find("the master"), std::string::npos);
}

}  // namespace
}  // namespace embers
