#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace embers {

// How a job stands, as its master sees it: what `embers status` shows. docs/control.md says what each value
// means. Numbers that do not exist are NaN.
struct Status {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  struct Evaluation {
    double loss = kNone, auc = kNone, accuracy = kNone;
  };
  struct Group {
    uint64_t wanted = 0;
    uint64_t joined = 0;  // and still there
    uint64_t lost = 0;    // so far
  };
  struct Member {
    std::string name;  // "worker 3"
    std::string role;  // worker, shard, reader
    uint32_t number = 0;
    std::string label;  // given by whoever started it, or ""
    std::string host;
    uint64_t pid = 0;
    std::string state;  // joining, working, idle, late, disconnected, draining, away
    double last_sign_s = kNone, joined_s = kNone;
    uint64_t minibatches = 0, examples = 0;  // a worker: finished
    uint64_t rows = 0, bytes = 0;            // a shard
    double pulls_per_s = 0, pushes_per_s = 0;
    // Minibatches. A worker: that others have finished since it began its own; a shard: that it was pushed
    // and has not applied yet.
    uint64_t lag = 0;
  };

  std::string job;  // the job file's path
  uint64_t id = 0;  // of this run
  std::string task, mode, phase;
  std::string error, stopping;  // "": none
  double elapsed_s = 0, remaining_s = kNone;
  uint32_t epoch = 0, epochs = 0;  // from 1; 0 before the first
  uint64_t version = 0;
  uint64_t minibatches_done = 0, minibatches = 0;  // of the epoch, or of the evaluation under way
  uint64_t examples = 0;
  double examples_per_s = 0;
  double loss = kNone, auc = kNone;  // recent
  std::optional<Evaluation> evaluation;
  double staleness_mean = kNone;
  uint64_t staleness_max = 0;
  Group workers, shards;
  std::vector<Member> members;
};

}  // namespace embers
