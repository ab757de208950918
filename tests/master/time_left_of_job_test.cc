// The time left of a whole job, as it turns out, and its pace.
#include <gtest/gtest.h>

#include "master/state/job_state.h"

namespace embers {
namespace {

// A job with a worker that takes a second over a minibatch, and half a second to evaluate one. Computing the
// metrics takes a second, saving four.
class JobOfKnownPace {
 public:
  explicit JobOfKnownPace(uint32_t epochs = 3, uint64_t train = 100, uint64_t test = 40) {
    config_->job.training.epochs = epochs;
    config_->job.training.minibatches_per_lease = 2;
    config_->job.storage.buckets = 16;
    config_->shards = config_->workers = 1;
    config_->train_minibatches = train;
    config_->test_minibatches = test;
  }

  struct Guess {
    double at;
    Phase phase;
    std::optional<double> seconds;
    double examples_per_s;
  };
  // Runs the job to the end of its last epoch; returns when that was.
  double run(std::vector<Guess>& guesses) {
    Event::Join join;
    join.link = join.token = 1;
    join.host = "here";
    join.model = signature(config_->model);
    give(join);
    while (state_.phase() != Phase::kEnding && state_.phase() != Phase::kFailed) {
      step();
      guesses.push_back({seconds(), state_.phase(), state_.remaining(), state_.status(now_).examples_per_s});
    }
    EXPECT_EQ(state_.phase(), Phase::kEnding) << (state_.error() ? state_.error()->what() : "");
    return seconds();
  }

 private:
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }
  void pass(double seconds) {
    for (; seconds > 0; --seconds) {
      now_ +=
          std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(std::min(seconds, 1.0)));
      give(Event::Heartbeat{++last_ticket_, worker_});
      give(Event::Tick{});
    }
  }
  template <class E>
  void give(E e) {
    if constexpr (requires { e.ticket; }) e.ticket = ++last_ticket_;
    for (Effect& effect : state_.on({now_, e})) effects_.push_back(std::move(effect));
  }
  // Does what the job wants done.
  void step() {
    for (const Effect& effect : std::exchange(effects_, {}))
      std::visit([&](const auto& e) { see(e); }, effect.what);
    if (lease_.parts.empty()) return give(Event::Lease{0, worker_, lease_.id});
    const bool training = state_.phase() == Phase::kTraining;
    pass(training ? 1 : 0.5);
    Event::Done done;
    done.incarnation = worker_;
    done.lease = lease_.id;
    done.minibatch = lease_.parts.front().minibatch;
    done.attempt = lease_.parts.front().attempt;
    done.examples = 10;
    examples_ += training ? 10 : 0;
    lease_.parts.erase(lease_.parts.begin());
    give(done);
  }

  template <class E>
  void see(const E&) {}
  void see(const Effect::Answer& e) {
    if (const auto* joined = std::get_if<Reply::Join>(&e.reply)) worker_ = joined->incarnation;
    if (const auto* leased = std::get_if<Reply::Lease>(&e.reply)) lease_ = leased->lease;
  }
  void see(const Effect::Prepare&) { give(Event::Prepared{}); }
  void see(const Effect::CountEvaluated& e) { give(Event::Counted{e.minibatch + 1}); }
  void see(const Effect::Ask& e) {
    OwnerCounts counts;
    counts.sums.examples = examples_;
    give(Event::OwnerAnswered{e.number, e.incarnation, e.id, counts});
  }
  void see(const Effect::Score&) {
    pass(1);
    give(Event::Scored{});
  }
  void see(const Effect::Save&) {
    pass(4);
    give(Event::Saved{});
  }

  const std::shared_ptr<JobConfig> config_ = std::make_shared<JobConfig>();
  Time now_{};
  JobState state_{config_, 1, false, now_};
  std::vector<Effect> effects_;
  Ticket last_ticket_ = 0;
  uint64_t worker_ = 0, examples_ = 0;
  LeaseBook::Lease lease_{0, {}};
};

TEST(TimeLeftOfJob, IsWhatItTurnsOutToBe) {
  JobOfKnownPace job;
  std::vector<JobOfKnownPace::Guess> guesses;
  const double end = job.run(guesses);
  EXPECT_NEAR(end, 3 * (100 + 20 + 5), 1);
  size_t known = 0;
  for (const auto& guess : guesses) {
    if (!guess.seconds) {
      EXPECT_TRUE(guess.at < 10 || guess.phase == Phase::kEnding) << "not known after " << guess.at << " s";
      continue;
    }
    ++known;
    // At first what comes between epochs is not known, and evaluation is thought to take twice as long.
    const double wrong = guess.at < 130 ? 70 : 8;
    EXPECT_NEAR(guess.at + *guess.seconds, end, wrong) << "after " << guess.at << " s";
  }
  EXPECT_GT(known, 300);
}

// Ten examples in six and a half seconds: one of training, half a one of evaluation, and what comes between.
TEST(PaceOfJob, IsKnownWhereEpochsAreShort) {
  JobOfKnownPace job(30, 1, 1);
  std::vector<JobOfKnownPace::Guess> guesses;
  job.run(guesses);
  size_t known = 0;
  for (const auto& guess : guesses)
    if (guess.phase == Phase::kTraining && guess.at > 20) {
      EXPECT_NEAR(guess.examples_per_s, 10 / 6.5, 0.7) << "after " << guess.at << " s";
      ++known;
    }
  EXPECT_GT(known, 20);
}

}  // namespace
}  // namespace embers
