#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace embers {

// How fast minibatches of one kind are done, judged by the recent ones: those of the last kSpan of such work,
// but at least kMinibatches. Time counts only within stretches of this work, so what comes between them (an
// evaluation, a pause) does not matter. Plain state; moments come from the caller.
class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr double kSpan = 30;  // seconds
  static constexpr uint64_t kMinibatches = 20;
  // Less tells nothing, unless it is a whole stretch.
  static constexpr double kLeastSpan = 3;  // seconds
  static constexpr uint64_t kLeastMinibatches = 3;
  // It is stalled when nothing was done for so long, and for so many usual minibatches.
  static constexpr double kStall = 30;  // seconds
  static constexpr double kStalled = 10;

  // A stretch begins, or goes on: so many of its minibatches are done.
  void work(uint64_t done, Time now);
  // The stretch has ended (`whole`), or is held up; the next work() begins another.
  void pause(bool whole);

  // Seconds that a minibatch takes; none as long as too little is known, or when it is stalled.
  std::optional<double> seconds_each() const;
  bool stalled() const;

 private:
  struct Moment {
    Time at;
    uint64_t done;
  };
  struct Sample {
    double seconds;  // of this work, in all stretches
    uint64_t done;   // minibatches, likewise
  };
  const Sample* first() const;
  double idle() const { return seconds_ - samples_.back().seconds; }

  std::optional<Moment> last_;  // of the stretch that is under way
  double seconds_ = 0;
  uint64_t done_ = 0;
  std::deque<Sample> samples_{{0, 0}};  // the begin, or when something was done; oldest first
  bool whole_ = false;                  // some stretch came to its end
};

// How much longer a job will take. Plain state, owned by the master; moments come from the caller.
//
// What is left is minibatches to train on and to evaluate, in this epoch and in those to come, and what comes
// between them (settling, scoring, saving). Each takes what it took lately. As long as evaluation is not
// known, it takes what training does, which is more.
class TimeLeft {
 public:
  using Time = Pace::Time;
  static constexpr double kMost = 1000.0 * 86400;  // seconds

  enum class Kind : uint8_t { kTraining, kEvaluation };
  // Minibatches of this kind are being done, and of this stretch so many are.
  void work(Kind kind, uint64_t done, Time now);
  // The work under way has ended.
  void finish(Time now);
  // Nothing can be done for a while, which does not count.
  void pause();
  // An epoch has ended with all that follows it.
  void end_epoch(Time now);

  // What is left of a job.
  struct Rest {
    uint64_t training = 0, evaluation = 0;  // minibatches
    uint64_t epochs = 0;                    // whose end is to come
  };
  // None as long as it is not known, and beyond kMost. Never negative.
  std::optional<double> seconds(const Rest& rest) const;

 private:
  void end_gap(Time now);

  Pace training_, evaluation_;
  // Between the works of an epoch, and after the last one.
  std::optional<Time> gap_since_;
  double gaps_of_epoch_ = 0, gaps_of_all_ = 0;  // seconds; of this epoch, and of those that have ended
  uint64_t epochs_ = 0;                         // that have ended
};

}  // namespace embers
