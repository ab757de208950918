// A job that is saved in the middle of its work goes on, and so does one that begins with what was saved.
#include <filesystem>
#include <fstream>

#include "tests/master/master_testing.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers {
namespace {

using namespace testing_support;

class Saved : public Job {
 public:
  explicit Saved(const Options& options = {}) : Job(options) {}

  Message<wire::CheckpointRequest> request(const std::string& directory, uint64_t id) const {
    return make_message<wire::CheckpointRequest>([&](wire::CheckpointRequest::Builder b) {
      b.setId(id);
      b.setDirectory(directory);
    });
  }
  bool ask_for(const std::string& directory, uint64_t id = 1) {
    return ask(self_.ptr(), master_, request(directory, id)).get().getSaved();
  }
  // As Admin::checkpoint() does.
  void checkpoint(const std::string& directory, uint64_t id = 1) {
    for (int i = 0; i < 100; ++i)
      if (ask_for(directory, id)) return;
    ADD_FAILURE() << "it is never saved";
  }
  std::string phase() {
    return ask(self_.ptr(), master_, make_message<wire::StatusRequest>()).get().getPhase().cStr();
  }

 private:
  caf::scoped_actor self_{system_};
};

// The rest of the epoch, by a job that begins with what was saved; returns its minibatches.
std::vector<uint64_t> rest(Options options, const std::string& saved, uint64_t examples) {
  options.resume = saved;
  options.workers = 1;
  Job job(options);
  Worker worker(job);
  std::vector<uint64_t> minibatches = worker.work_to_the_end();
  std::ranges::sort(minibatches);
  const JobResult result = job.result();
  EXPECT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, examples);
  EXPECT_EQ(result.report.total.owners.examples, 10u * options.minibatches) << "of both jobs";
  return minibatches;
}

TEST(Checkpoint, WaitsForWhatIsUnderWayAndBeginsNothingNew) {
  TempDir dir;
  const Options options{.minibatches = 10, .workers = 2};
  Saved job(options);
  Worker first(job), second(job);
  first.finish(first.lease());
  const Lease held = second.lease();
  EXPECT_FALSE(job.ask_for(dir / "saved")) << "the first answer comes at once";
  auto next = first.lease_later();
  EXPECT_TRUE(next.waits(3s));
  EXPECT_FALSE(job.ask_for(dir / "saved"));
  EXPECT_EQ(job.phase(), "training");
  second.finish(held);
  EXPECT_TRUE(job.ask_for(dir / "saved"));
  EXPECT_TRUE(job.ask_for(dir / "saved")) << "asked again, it is the same one";
  first.finish(next.get());
  EXPECT_EQ(first.work_to_the_end().size(), 4u);
  second.leave();
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 100u);
  EXPECT_EQ(rest(options, dir / "saved", 60), (std::vector<uint64_t>{4, 5, 6, 7, 8, 9}));
}

TEST(Checkpoint, InSyncModeIsOfTheLastVersion) {
  TempDir dir;
  const Options options{.mode = job::Mode::kSync, .minibatches = 8, .workers = 2, .grads_to_wait = 4};
  Saved job(options);
  Worker first(job), second(job);
  for (int i = 0; i < 3; ++i) {
    first.finish(first.lease());
    second.finish(second.lease());
  }
  job.checkpoint(dir / "saved");
  first.finish(first.lease());
  second.finish(second.lease());
  second.leave();
  EXPECT_EQ(first.work_to_the_end().size(), 0u);
  ASSERT_FALSE(job.result().error);
  EXPECT_EQ(rest(options, dir / "saved", 40), (std::vector<uint64_t>{4, 5, 6, 7}));
}

// It had reached one of two owners.
TEST(Checkpoint, HasWhatALostWorkerHadBegun) {
  TempDir dir;
  const Options options{.minibatches = 6, .workers = 2, .shards = 2};
  Saved job(options);
  Worker first(job);
  auto lost = std::make_unique<Worker>(job);
  const Lease lease = lost->lease();
  lost->push(lease, 0);
  lost->push_to(1, lease, 1);
  EXPECT_FALSE(job.ask_for(dir / "saved"));
  EXPECT_FALSE(job.ask_for(dir / "saved"));
  lost.reset();
  job.checkpoint(dir / "saved");
  EXPECT_EQ(first.work_to_the_end().size(), 6u) << "in this job nobody has said that they are done";
  ASSERT_FALSE(job.result().error);
  EXPECT_EQ(rest(options, dir / "saved", 50), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

// What it does then may still count: others do it first.
TEST(Checkpoint, DoesNotWaitForALateWorker) {
  TempDir dir;
  const Options options{.minibatches = 6, .workers = 2, .lease_timeout = 5};
  Saved job(options);
  Worker first(job), late(job);
  const Lease held = late.lease();
  EXPECT_FALSE(job.ask_for(dir / "saved"));
  auto next = first.lease_later();
  EXPECT_TRUE(next.waits(4s));
  const Lease taken = next.get();
  EXPECT_EQ(taken.get().getMinibatches()[0].getMinibatch(), 0u);
  EXPECT_FALSE(job.ask_for(dir / "saved"));
  first.finish(taken);
  EXPECT_TRUE(job.ask_for(dir / "saved"));
  EXPECT_FALSE(late.done(held, 0));
  EXPECT_EQ(first.work_to_the_end().size(), 4u);
  late.leave();
  ASSERT_FALSE(job.result().error);
  EXPECT_EQ(rest(options, dir / "saved", 40), (std::vector<uint64_t>{2, 3, 4, 5}));
}

TEST(Checkpoint, ThatCannotBeWrittenIsAnErrorOfWhoWantsIt) {
  TempDir dir;
  std::ofstream(dir / "file") << "no directory";
  Saved job({.minibatches = 4});
  Worker worker(job);
  worker.finish(worker.lease());
  expect_error(ErrorCode::kInvalid, {dir / "file"}, [&] { job.checkpoint(dir / "file" + "/saved", 1); });
  expect_error(ErrorCode::kInvalid, {dir / "file"}, [&] { job.ask_for(dir / "file" + "/saved", 1); });
  expect_error(ErrorCode::kInvalid, {"which directory"}, [&] { job.ask_for("", 2); });
  job.checkpoint(dir / "saved", 3);
  EXPECT_EQ(worker.work_to_the_end().size(), 2u);
  const JobResult result = job.result();
  ASSERT_FALSE(result.error) << result.error->what();
  EXPECT_EQ(result.report.total.examples, 40u);
}

TEST(Checkpoint, OneIsSavedAtATime) {
  TempDir dir;
  Saved job({.minibatches = 4});
  Worker worker(job);
  const Lease held = worker.lease();
  EXPECT_FALSE(job.ask_for(dir / "saved", 1));
  expect_error(ErrorCode::kInvalid, {"another checkpoint is being saved to", dir / "saved"},
               [&] { job.ask_for(dir / "other", 2); });
  worker.finish(held);
  job.checkpoint(dir / "saved", 1);
  job.checkpoint(dir / "other", 2);
  EXPECT_TRUE(std::filesystem::exists(dir / "other" + "/manifest.json"));
}

TEST(Checkpoint, OfAJobThatHasNotBegunOrIsOverIsRefused) {
  TempDir dir;
  Saved job({.minibatches = 2});
  expect_error(ErrorCode::kInvalid, {"has not begun"}, [&] { job.ask_for(dir / "saved", 1); });
  Worker worker(job);
  const Lease held = worker.lease();
  EXPECT_FALSE(job.ask_for(dir / "saved", 2));
  worker.report_failure(ErrorCode::kInvalid, "t.csv:2: 'x' is not a number");
  for (const uint64_t id : {2, 3})
    expect_error(ErrorCode::kJobFailed, {"t.csv:2"}, [&] { job.ask_for(dir / "saved", id); });
}

TEST(Checkpoint, OfAnEvaluationIsWrittenBesideIt) {
  TempDir dir;
  const Options options{.minibatches = 2, .test_minibatches = 6, .output = dir / "output"};
  Saved job(options);
  Worker worker(job);
  worker.finish(worker.lease());
  const Lease evaluation = worker.lease();
  ASSERT_EQ(evaluation.get().getKind(), Kinds::EVALUATE);
  job.checkpoint(dir / "saved");
  EXPECT_EQ(job.phase(), "evaluating");
  worker.finish(evaluation);
  worker.work_to_the_end();
  ASSERT_FALSE(job.result().error);
  EXPECT_TRUE(std::filesystem::exists(dir / "saved" + "/manifest.json"));
  EXPECT_TRUE(std::filesystem::exists(dir / "output" + "/manifest.json"));
}

}  // namespace
}  // namespace embers
