// Jobs whose owners are lost and come back. A relay in front of a real owner stands for an owner process; the
// real owner keeps what the journal would.
#include <gtest/gtest.h>

#include <map>

#include "tests/master/master_testing.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr auto kSync = job::Mode::kSync;

// What a test and the actors of its job share.
struct Shared {
  bool dies_at_commit = false, dies_at_stats = false;  // the next owner that is asked for either ends instead
  bool hangs_at_commit = false;
  uint32_t next = 0;  // shard whose rows the next process holds
  std::string events;
  std::map<uint32_t, OptimizerActor> latest;  // by shard
};
using SharedPtr = std::shared_ptr<Shared>;

OptimizerActor relay(caf::actor_system& system, const OptimizerActor& real, const SharedPtr& shared) {
  const auto behavior = [](OptimizerActor::pointer self, const OptimizerActor& real,
                           const SharedPtr& shared) -> OptimizerActor::behavior_type {
    using Held = caf::typed_response_promise<Message<wire::CommitReply>>;
    const auto held = std::make_shared<std::vector<Held>>();
    return {
        [=](const Message<wire::PushRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::NormsRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::CommitRequest>& m) -> caf::result<Message<wire::CommitReply>> {
          if (shared->hangs_at_commit)
            return held->emplace_back(self->make_response_promise<Message<wire::CommitReply>>());
          if (!std::exchange(shared->dies_at_commit, false)) return self->delegate(real, m);
          self->quit(caf::exit_reason::kill);
          return to_caf(Error(ErrorCode::kUnavailable, "killed"));
        },
        [=](const Message<wire::FenceRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::MapRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::StatsRequest>& m) -> caf::result<Message<wire::StatsReply>> {
          if (!std::exchange(shared->dies_at_stats, false)) return self->delegate(real, m);
          self->quit(caf::exit_reason::kill);
          return to_caf(Error(ErrorCode::kUnavailable, "killed"));
        },
        [=](const Message<wire::ResumeRequest>& m) { return self->delegate(real, m); },
        [=](const Message<wire::EndRequest>& m) { return self->delegate(real, m); },
    };
  };
  return system.spawn(behavior, real, shared);
}

// A job whose owners join from other processes, with a journal.
class RemoteJob : public Job {
 public:
  explicit RemoteJob(Options options) : RemoteJob(options, std::make_shared<Shared>()) {}
  ~RemoteJob() {
    for (const auto& [shard, relay] : shared_->latest)
      caf::anon_send_exit(relay, caf::exit_reason::user_shutdown);
  }

  // Joins as a process that, if it is accepted, holds what owner `shard` holds; returns the answer.
  Message<wire::JoinReply> join_owner(uint32_t shard) {
    shared_->next = shard;
    owner_processes_.push_back(std::make_unique<caf::scoped_actor>(system_));
    return ask(owner_processes_.back()->ptr(), master_,
               make_message<wire::JoinRequest>([](wire::JoinRequest::Builder b) {
                 b.setRole(wire::Role::OWNER);
                 b.setHost("there");
               }));
  }
  // The latest process of the shard ends.
  void kill_owner(uint32_t shard) { caf::anon_send_exit(shared_->latest.at(shard), caf::exit_reason::kill); }
  std::string events() const { return shared_->events; }
  bool has_event(const std::string& text) {
    return system_.run_until([&] { return events().find(text) != std::string::npos; });
  }
  Shared& shared() { return *shared_; }

  Later<wire::OwnersRequest> owners_later(const Worker& worker, uint32_t map_version) {
    return {system_, master_, make_message<wire::OwnersRequest>([&](wire::OwnersRequest::Builder b) {
              b.setIncarnation(worker.incarnation());
              b.setMapVersion(map_version);
            })};
  }

 private:
  RemoteJob(Options& options, const SharedPtr& shared)
      : Job((options.change = changes(this, shared), options)), shared_(shared) {
    for (uint32_t shard = 0; shard < options.shards; ++shard) join_owner(shard);
  }

  static std::function<void(MasterConfig&)> changes(RemoteJob* job, const SharedPtr& shared) {
    return [job, shared](MasterConfig& config) {
      config.local_owners.clear();
      config.job.storage.backend = "memcached";
      config.connect_owner = [job, shared](const auto&...) {
        const OwnerHandles& real = job->owners_[shared->next];
        const OwnerHandles handles{relay(job->system_, real.optimizer, shared), real.shard};
        return shared->latest[shared->next] = handles.optimizer, handles;
      };
      config.on_event = [shared](const std::string& line) { shared->events += line + "\n"; };
    };
  }

  const SharedPtr shared_;
  std::vector<std::unique_ptr<caf::scoped_actor>> owner_processes_;
};

TEST(LostOwner, StopsTheLeasesUntilItsNextProcessIsThereAndLosesNothing) {
  RemoteJob job({.minibatches = 4, .shards = 2, .journal = "journal"});
  Worker worker(job);
  const Lease lease = worker.lease();
  worker.push_to(0, lease, 0);
  job.kill_owner(1);
  ASSERT_TRUE(job.has_event("lost shard 1 (pid 0 on there)")) << job.events();
  EXPECT_TRUE(job.has_event("waiting 60 s for its next process")) << job.events();
  for (unsigned i = 0; i < 2; ++i) EXPECT_TRUE(worker.done(lease, i, true));
  auto next = worker.lease_later();
  EXPECT_TRUE(next.waits());
  const auto joined = job.join_owner(1);
  EXPECT_TRUE(joined.get().getTakesOver());
  EXPECT_EQ(joined.get().getNumber(), 1);
  EXPECT_EQ(joined.get().getMapVersion(), 2);
  worker.map_version = 2;
  const Lease again = next.get();
  EXPECT_EQ(again.get().getMinibatches()[0].getMinibatch(), 0);
  EXPECT_EQ(again.get().getMinibatches()[0].getAttempt(), 2);
  worker.finish(again);
  EXPECT_EQ(worker.work_to_the_end(), (std::vector<uint64_t>{2, 3}));
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 40);
  EXPECT_EQ(result.report.total.owners.duplicates, 1);
  EXPECT_EQ(result.report.released, 2);
}

TEST(LostOwner, MakesNoWorkerLate) {
  RemoteJob job({.heartbeat_timeout = 1000,
                 .shards = 2,
                 .journal = "journal",
                 .owner_timeout = 1000,
                 .lease_timeout = 5});
  Worker worker(job);
  const Lease lease = worker.lease();
  job.system_.pass(4s);
  job.kill_owner(1);
  job.system_.pass(100s);
  EXPECT_FALSE(job.has_ended()) << job.events();
  job.join_owner(1);
  job.system_.pass(4s);
  EXPECT_EQ(job.events().find("has worked on"), std::string::npos)
      << "its time begins anew: " << job.events();
  EXPECT_TRUE(job.has_event("has worked on minibatch 0"));
}

TEST(AnOwnerThatHangs, IsNoFaultOfWorkersThatWaitForIt) {
  RemoteJob job(
      {.mode = kSync, .workers = 2, .heartbeat_timeout = 1000, .journal = "journal", .lease_timeout = 5});
  job.shared().hangs_at_commit = true;
  Worker late(job), waiting(job);
  late.lease();
  auto next = waiting.lease_later();
  EXPECT_FALSE(next.waits(7s)) << "it computes what the late one holds";
  waiting.finish(next.get());
  EXPECT_TRUE(waiting.lease_later().waits(100s)) << job.events();
  EXPECT_FALSE(job.has_ended());
}

TEST(LostOwner, IsNoLongerWaitedForAfterItsTimeout) {
  RemoteJob job({.shards = 2, .journal = "journal", .owner_timeout = 0.2});
  Worker worker(job);
  worker.lease();  // training has begun
  job.kill_owner(0);
  const JobResult result = job.result();
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->code(), ErrorCode::kLost);
  for (const std::string text :
       {"lost shard 0 (pid 0 on there)", "0.2 s (storage.owner_timeout)", "--resume"})
    EXPECT_NE(std::string(result.error->what()).find(text), std::string::npos) << result.error->what();
}

TEST(LostOwner, WithoutAJournalOrTimeEndsTheJobAtOnce) {
  for (const bool journal : {false, true}) {
    RemoteJob job({.shards = 2, .journal = journal ? "journal" : "", .owner_timeout = journal ? 0.0 : 60});
    Worker worker(job);
    worker.lease();
    job.kill_owner(1);
    const JobResult result = job.result();
    ASSERT_TRUE(result.error);
    EXPECT_EQ(job.events().find("waiting"), std::string::npos) << job.events();
  }
}

TEST(LostOwner, IsAskedAgainToCommitWhatItWasAskedBefore) {
  RemoteJob job({.mode = kSync, .minibatches = 2, .shards = 2, .journal = "journal"});
  Worker worker(job);
  const Lease first = worker.lease();
  job.shared().dies_at_commit = true;
  worker.finish(first);
  ASSERT_TRUE(job.has_event("waiting 60 s")) << job.events();
  auto next = worker.lease_later();
  EXPECT_TRUE(next.waits());
  job.join_owner(job.events().find("lost shard 1") == std::string::npos ? 0 : 1);
  worker.map_version = 2;
  const Lease second = next.get();
  EXPECT_EQ(second.get().getVersion(), 1);
  worker.finish(second);
  worker.work_to_the_end();
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.owners.version, 2);
  EXPECT_EQ(result.report.total.examples, 20);
}

TEST(LostOwner, AtTheEndOfAnEpochIsWaitedForToo) {
  RemoteJob job({.minibatches = 1, .epochs = 2, .shards = 2, .journal = "journal"});
  Worker worker(job);
  const Lease first = worker.lease();
  job.shared().dies_at_stats = true;
  worker.finish(first);
  ASSERT_TRUE(job.has_event("waiting 60 s")) << job.events();
  job.join_owner(job.events().find("lost shard 1") == std::string::npos ? 0 : 1);
  worker.map_version = 2;
  worker.work_to_the_end();
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 20);
}

TEST(LostOwner, ThatComesBackWithAnotherVersionEndsASyncJob) {
  RemoteJob job({.mode = kSync, .minibatches = 3, .shards = 2, .journal = "journal"});
  Worker worker(job);
  worker.finish(worker.lease());
  worker.lease();  // version 1 is there
  job.kill_owner(1);
  ASSERT_TRUE(job.has_event("lost shard 1")) << job.events();
  const OwnerHandles old = job.owners_[1];
  OwnerConfig empty = owner_config(true, {table("a", 1)});
  empty.map = even_owner_map(2, 16);
  empty.number = 1;
  job.owners_[1] = spawn_owner(job.system_, empty);
  job.join_owner(1);
  const JobResult result = job.result();
  end_owner(old);
  ASSERT_TRUE(result.error);
  for (const std::string text : {"version 0 in its journal", "at version 1", "--resume"})
    EXPECT_NE(std::string(result.error->what()).find(text), std::string::npos) << result.error->what();
}

TEST(LostOwner, WhoseNextProcessIsLostTooIsWaitedForOn) {
  RemoteJob job({.minibatches = 2, .shards = 2, .journal = "journal"});
  Worker worker(job);
  const Lease lease = worker.lease();
  job.kill_owner(1);
  ASSERT_TRUE(job.has_event("lost shard 1")) << job.events();
  job.shared().dies_at_stats = true;  // the first question
  job.join_owner(1);
  ASSERT_TRUE(job.system_.run_until([&] {
    const std::string events = job.events();
    return events.find("lost shard 1", events.find("lost shard 1") + 1) != events.npos;
  })) << job.events();
  EXPECT_EQ(job.join_owner(1).get().getMapVersion(), 3);
  worker.map_version = job.owners_later(worker, 1).get().get().getMapVersion();  // all owners know it
  worker.finish(lease);
  EXPECT_TRUE(worker.work_to_the_end().empty());
  EXPECT_FALSE(job.result().error);
}

TEST(LostOwner, TwoAtOnceAreBothWaitedFor) {
  RemoteJob job({.minibatches = 2, .shards = 2, .journal = "journal"});
  Worker worker(job);
  const Lease lease = worker.lease();
  for (uint32_t shard = 0; shard < 2; ++shard) job.kill_owner(shard);
  for (const std::string text : {"lost shard 0", "lost shard 1"})
    ASSERT_TRUE(job.has_event(text)) << job.events();
  for (unsigned i = 0; i < 2; ++i) EXPECT_TRUE(worker.done(lease, i, true));
  auto next = worker.lease_later();
  EXPECT_EQ(job.join_owner(0).get().getNumber(), 0);
  EXPECT_TRUE(next.waits());
  EXPECT_EQ(job.join_owner(1).get().getNumber(), 1);
  worker.map_version = 3;
  worker.finish(next.get());
  worker.work_to_the_end();
  EXPECT_FALSE(job.result().error);
}

TEST(LostOwner, WorkersAreToldWhereItIsOnceItIsThere) {
  RemoteJob job({.shards = 2, .journal = "journal"});
  Worker worker(job);
  EXPECT_EQ(job.owners_later(worker, 1).get().get().getMapVersion(), 1)
      << "only this worker's connection broke";
  job.kill_owner(1);
  ASSERT_TRUE(job.has_event("lost shard 1")) << job.events();
  auto owners = job.owners_later(worker, 1);
  EXPECT_TRUE(owners.waits());
  job.join_owner(1);
  const auto reply = owners.get();
  EXPECT_EQ(reply.get().getMapVersion(), 2);
  EXPECT_EQ(reply.get().getOwners().size(), 2);
  EXPECT_EQ(job.owners_later(worker, 1).get().get().getMapVersion(), 2);
}

TEST(LostOwner, NobodyTakesThePlaceOfOneThatIsThere) {
  RemoteJob job({.shards = 2, .journal = "journal"});
  expect_error(ErrorCode::kInvalid, {"all have joined"}, [&] { job.join_owner(0); });
}

}  // namespace
}  // namespace embers
