// A job that is steered while it runs: how it stands, more or fewer workers, its end.
#include <filesystem>

#include "tests/master/master_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;
using What = wire::OrderReply::Order;

constexpr uint32_t kMany = 1000;  // minibatches: the job does not end by itself

class Steered : public Job {
 public:
  explicit Steered(const Options& options = {}) : Job(options) {}

  Message<wire::StatusReply> status() {
    return ask(self_.ptr(), master_, make_message<wire::StatusRequest>());
  }
  void scale(uint32_t workers) {
    ask(self_.ptr(), master_,
        make_message<wire::ScaleRequest>([&](wire::ScaleRequest::Builder b) { b.setWorkers(workers); }));
  }
  void drain(const std::vector<std::string>& names) {
    ask(self_.ptr(), master_, make_message<wire::DrainRequest>([&](wire::DrainRequest::Builder b) {
          write_texts(b.initMembers(static_cast<unsigned>(names.size())), names);
        }));
  }
  void end(bool save, const std::string& why = "") {
    ask(self_.ptr(), master_, make_message<wire::StopRequest>([&](wire::StopRequest::Builder b) {
          b.setSave(save);
          b.setWhy(why);
        }));
  }
  std::string state(unsigned member) { return status().get().getMembers()[member].getState().cStr(); }
  void expect_workers(uint64_t wanted, uint64_t joined, uint64_t lost = 0) {
    const auto status = this->status();
    const auto workers = status.get().getWorkers();
    EXPECT_EQ(workers.getWanted(), wanted);
    EXPECT_EQ(workers.getJoined(), joined);
    EXPECT_EQ(workers.getLost(), lost);
  }

 private:
  caf::scoped_actor self_{system_};
};

TEST(Scale, DownDrainsTheYoungestWorkersWhichFinishWhatTheyHold) {
  Steered job({.minibatches = 20, .workers = 3});
  Worker first(job), second(job), third(job);
  auto order_1 = first.order_later(), order_2 = second.order_later(), order_3 = third.order_later();
  const Lease held = second.lease();
  EXPECT_TRUE(order_2.waits());
  job.scale(1);
  job.expect_workers(1, 1);
  EXPECT_EQ(order_2.get().get().getOrder(), What::DRAIN);
  EXPECT_EQ(order_3.get().get().getOrder(), What::DRAIN);
  EXPECT_TRUE(order_1.waits());
  EXPECT_EQ(job.state(0), "idle");
  EXPECT_EQ(job.state(1), "draining");
  second.finish(held);
  second.leave();
  EXPECT_EQ(third.lease().get().getKind(), Kinds::END) << "one that has not got its order yet";
  third.leave();
  job.expect_workers(1, 1);
  EXPECT_EQ(first.work_to_the_end().size(), 18);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 200);
  EXPECT_EQ(result.report.workers_lost, 0);
  EXPECT_EQ(result.report.released, 0);
}

TEST(Scale, UpIsSeenByWhoeverStartsProcesses) {
  Steered job({.minibatches = kMany});
  Worker worker(job);
  job.scale(4);
  job.expect_workers(4, 1);
  Worker other(job);
  job.expect_workers(4, 2);
}

TEST(Scale, BeforeTheJobBeginsChangesHowManyItWaitsFor) {
  Steered job({.minibatches = kMany, .workers = 3});
  Worker first(job), second(job);
  EXPECT_STREQ(job.status().get().getPhase().cStr(), "gathering");
  job.scale(2);
  EXPECT_EQ(first.lease().get().getKind(), Kinds::TRAIN);
  EXPECT_STREQ(job.status().get().getPhase().cStr(), "training");
}

TEST(Scale, BelowOneIsRefused) {
  Steered job({.minibatches = kMany, .workers = 2});
  expect_error(ErrorCode::kInvalid, {"at least one worker", "embers stop"}, [&] { job.scale(0); });
  expect_error(ErrorCode::kInvalid, {"at most 100000 workers, not 4000000000"},
               [&] { job.scale(4'000'000'000); });
  job.expect_workers(2, 0);
}

TEST(WantedWorkers, AreMoreWhenOneIsStartedByHandAndNotWhenOneIsLaunched) {
  Steered job({.minibatches = kMany});
  Worker first(job), by_hand(job);
  job.expect_workers(2, 2);
  Worker launched(job, false);
  launched.join({}, {}, {}, "w7");
  job.expect_workers(2, 2);
  EXPECT_EQ(launched.order_later().get().get().getOrder(), What::DRAIN);
  launched.leave();
  by_hand.leave();
  job.expect_workers(2, 1);
  Worker replacement(job, false);
  replacement.join({}, {}, {}, "w8");
  EXPECT_TRUE(replacement.order_later().waits()) << "it is wanted";
  job.expect_workers(2, 2);
}

TEST(Drain, TakesNamesNumbersAndLabelsAndIsCountedOnce) {
  Steered job({.minibatches = kMany, .workers = 5});
  std::deque<Worker> workers;
  for (int i = 0; i < 5; ++i) {
    workers.emplace_back(job, false);
    workers.back().join({}, {}, {}, i == 3 ? "left rack" : "");
  }
  job.drain({"worker 1"});
  job.expect_workers(4, 4);
  job.drain({"worker-1", "1", "2"});
  job.expect_workers(3, 3);
  job.drain({"left rack"});
  job.expect_workers(2, 2);
  for (const int i : {1, 2, 3}) EXPECT_EQ(job.state(i), "draining") << i;
  for (const int i : {0, 4}) EXPECT_EQ(job.state(i), "idle") << i;
}

TEST(Join, ALabelThatWouldSpoilLogsIsRefused) {
  Steered job({.minibatches = kMany});
  Worker worker(job, false);
  for (const std::string& label : {std::string(65, 'x'), std::string("two\nlines"), std::string("\x1b[2J")})
    expect_error(ErrorCode::kInvalid, {"EMBERS_LABEL", "at most 64 bytes"},
                 [&] { worker.join({}, {}, {}, label); });
  worker.join({}, {}, {}, std::string(64, 'x'));
  job.expect_workers(1, 1);
}

TEST(Drain, IsRefusedAsAWholeWhenOneCannotBe) {
  Steered job({.minibatches = kMany, .workers = 3});
  Worker first(job), second(job, false), third(job, false);
  second.join({}, {}, {}, "twin");
  third.join({}, {}, {}, "twin");
  expect_error(ErrorCode::kInvalid, {"no worker 'worker 9'", "worker 0, worker 1 (twin), worker 2 (twin)"},
               [&] {
                 job.drain({"worker 1", "worker 9"});
               });
  expect_error(ErrorCode::kInvalid, {"2 workers have the label 'twin'"}, [&] { job.drain({"twin"}); });
  expect_error(ErrorCode::kInvalid, {"no worker would be wanted"}, [&] { job.drain({"0", "1", "2"}); });
  expect_error(ErrorCode::kInvalid, {"which workers"}, [&] { job.drain({}); });
  job.expect_workers(3, 3);
  EXPECT_TRUE(second.order_later().waits());
}

TEST(Drain, WhoDoesNotObeyIsTreatedAsAnyOther) {
  Steered job({.minibatches = 2, .workers = 2, .lease_timeout = 5});
  Worker first(job), second(job);
  const Lease held = second.lease();
  job.drain({"worker 1"});
  auto next = first.lease_later();
  EXPECT_TRUE(next.waits(4s));
  EXPECT_FALSE(next.waits(3s)) << "it is late";
  EXPECT_EQ(job.state(1), "draining");
  first.finish(next.get());
  first.leave();
  second.leave();
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 20);
}

TEST(Stop, SavesUnlessToldNotTo) {
  for (const bool save : {true, false}) {
    TempDir dir;
    const std::string output = dir / "model";
    Steered job({.minibatches = kMany, .output = output});
    Worker worker(job);
    worker.finish(worker.lease());
    const Lease held = worker.lease();
    job.end(save);
    EXPECT_NE(std::string(job.status().get().getStopping().cStr()).find("embers stop"), std::string::npos);
    worker.finish(held);
    EXPECT_EQ(worker.lease().get().getKind(), Kinds::END);
    worker.leave();
    const JobResult result = job.result();
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_EQ(result.report.total.examples, 40) << "what was leased is finished";
    EXPECT_EQ(result.report.stopped_by, save ? "embers stop" : "embers stop --no-save");
    EXPECT_EQ(std::filesystem::exists(output), save);
  }
}

TEST(Stop, WhoStopsAJobMaySayWhy) {
  Steered job({.minibatches = kMany});
  Worker worker(job);
  const Lease held = worker.lease();
  job.end(true, "SIGINT at the launcher");
  EXPECT_STREQ(job.status().get().getStopping().cStr(), "SIGINT at the launcher");
  job.end(true);
  worker.finish(held);
  EXPECT_EQ(worker.lease().get().getKind(), Kinds::END);
  worker.leave();
  EXPECT_EQ(job.result().report.stopped_by, "SIGINT at the launcher");
}

TEST(AJobThatIsOver, IsNotSteered) {
  Steered job({.minibatches = 1});
  Worker worker(job);
  worker.finish(worker.lease());
  EXPECT_EQ(worker.lease().get().getKind(), Kinds::END);
  for (const auto& steer : std::initializer_list<std::function<void()>>{
           [&] { job.scale(3); }, [&] { job.drain({"worker 0"}); }, [&] { job.end(true); }})
    expect_error(ErrorCode::kEnded, {"has ended"}, steer);
  EXPECT_STREQ(job.status().get().getPhase().cStr(), "ending");
}

TEST(AJobThatHasFailed, SaysWhy) {
  Steered job({.minibatches = kMany, .workers = 2});
  Worker worker(job), other(job);
  worker.report_failure(ErrorCode::kInvalid, "t.csv:2: 'x' is not a number");
  expect_error(ErrorCode::kJobFailed, {"t.csv:2"}, [&] { job.scale(3); });
  const auto status = job.status();
  EXPECT_STREQ(status.get().getPhase().cStr(), "failed");
  EXPECT_NE(std::string(status.get().getError().cStr()).find("t.csv:2"), std::string::npos);
}

TEST(Status, SaysHowTheJobAndEachMemberStand) {
  Steered job({.minibatches = 10, .test_minibatches = 1, .epochs = 2, .workers = 2, .lease_timeout = 5});
  Worker first(job), second(job);
  EXPECT_TRUE(std::isnan(job.status().get().getLoss())) << "none yet";
  const Lease held = second.lease();
  for (int i = 0; i < 2; ++i) first.finish(first.lease());
  job.system_.pass(3s);
  auto reply = job.status();
  auto s = reply.get();
  EXPECT_STREQ(s.getTask().cStr(), "train");
  EXPECT_STREQ(s.getMode().cStr(), "async");
  EXPECT_EQ(s.getRun(), 7u);
  EXPECT_EQ(s.getEpoch(), 1u);
  EXPECT_EQ(s.getEpochs(), 2u);
  EXPECT_EQ(s.getMinibatchesDone(), 4u);
  EXPECT_EQ(s.getMinibatches(), 10u);
  EXPECT_EQ(s.getExamples(), 40u);
  EXPECT_DOUBLE_EQ(s.getLoss(), 0.5);
  EXPECT_FALSE(s.hasEvaluation());
  EXPECT_EQ(s.getShards().getJoined(), 1u);
  ASSERT_EQ(s.getMembers().size(), 2u);
  const auto one = s.getMembers()[0], two = s.getMembers()[1];
  EXPECT_STREQ(one.getName().cStr(), "worker 0");
  EXPECT_STREQ(one.getState().cStr(), "idle");
  EXPECT_EQ(one.getMinibatches(), 4u);
  EXPECT_EQ(one.getExamples(), 40u);
  EXPECT_EQ(one.getLag(), 0u);
  EXPECT_STREQ(two.getState().cStr(), "working");
  EXPECT_EQ(two.getLag(), 4u) << "so many the others have finished since it began";
  EXPECT_NEAR(two.getLastSign(), 3, 0.5);
  job.system_.pass(4s);
  EXPECT_EQ(job.state(1), "late");
  second.finish(held);
  EXPECT_EQ(job.status().get().getMembers()[1].getLag(), 0u);
  for (int i = 0; i < 2; ++i) first.finish(first.lease());
  const Lease evaluation = first.lease();
  EXPECT_EQ(evaluation.get().getKind(), Kinds::EVALUATE);
  EXPECT_STREQ(job.status().get().getPhase().cStr(), "evaluating");
  first.finish(evaluation);
  EXPECT_EQ(first.lease().get().getKind(), Kinds::TRAIN);
  reply = job.status();
  s = reply.get();
  EXPECT_EQ(s.getEpoch(), 2u);
  ASSERT_TRUE(s.hasEvaluation());
  EXPECT_DOUBLE_EQ(s.getEvaluation().getLoss(), 0.5);
}

TEST(Status, HasTheRatesThatHeartbeatsSay) {
  Steered job({.minibatches = kMany});
  Worker worker(job);
  caf::scoped_actor self{job.system_};
  for (uint64_t second = 0; second < 4; ++second) {
    ask(self.ptr(), job.master_, make_message<wire::HeartbeatRequest>([&](wire::HeartbeatRequest::Builder b) {
          b.setIncarnation(worker.incarnation());
          b.setPulls(30 * second);
          b.setPushes(20 * second);
        }));
    job.system_.pass(second < 3 ? 1s : 0s);
  }
  const auto member = job.status();
  EXPECT_NEAR(member.get().getMembers()[0].getPullsPerSecond(), 30, 2);
  EXPECT_NEAR(member.get().getMembers()[0].getPushesPerSecond(), 20, 2);
}

}  // namespace
}  // namespace embers
