#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace embers {

// Where the time of a minibatch goes on its way through a worker: seconds of wall time, for reports. Stages
// of different minibatches overlap, so they add up to more than the time of an epoch; the trainer's kWait and
// kTrain follow each other, so those two, summed over all minibatches, make up a worker's time.
struct StageTimes {
  enum Stage : size_t {
    kRead,     // decode records
    kDedupe,   // unique keys
    kPull,     // from the request to the rows in their places, including the wait for earlier pulls
    kWait,     // the trainer had nothing to train on
    kTrain,    // the whole pass ...
    kDense,    // ... of which: forward, loss and backward of the model without its embeddings,
    kCombine,  // ... and the combination of embedding rows, with its gradient
    kPush,     // from the request to the owners' acknowledgement: the gradients are applied
    kStages
  };
  static constexpr std::array<const char*, kStages> kNames{"read",  "dedupe", "pull",    "wait",
                                                           "train", "dense",  "combine", "push"};
  std::array<double, kStages> seconds{};

  double& operator[](Stage stage) { return seconds[stage]; }
  double operator[](Stage stage) const { return seconds[stage]; }
  void add(const StageTimes& more) {
    for (size_t i = 0; i < kStages; ++i) seconds[i] += more.seconds[i];
  }
};

class StopWatch {
 public:
  // Seconds since the last lap, or since construction.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace embers
