#pragma once

#include <cstdint>

namespace embers::job {

class Section;

enum class Mode : uint8_t { kAsync, kSync, kBounded };
enum class Reduction : uint8_t { kMean, kSum };

inline constexpr int kMostWorkers = 100'000;  // of a job

// [training]
struct TrainingSection {
  Mode mode = Mode::kAsync;
  Reduction reduction = Reduction::kMean;
  uint32_t batch_size = 64;
  uint32_t epochs = 1;
  uint32_t workers = 1;
  uint32_t grads_to_wait = 1;
  uint32_t prefetch = 2;               // minibatches in a worker's pipeline beyond the one that trains
  uint32_t threads = 1;                // threads of every operator of a trainer
  bool skip_bad_gradients = false;     // on_bad_gradient = "error" | "skip"
  uint32_t minibatches_per_lease = 8;  // async and bounded; sync leases one at a time
  uint32_t staleness_bound = 4;        // bounded: clocks that a worker may be ahead of the slowest
  bool staleness_modulation = false;   // divide a push's learning rate by its staleness
  uint32_t get_model_steps = 1;        // minibatches of a worker from one pull of the dense model to the next
  uint32_t cache_rows = 0;             // how many a worker keeps of each embedding table; 0: none
  uint32_t cache_staleness = 4;        // for how many of its minibatches a worker reuses them
};

void read(Section& section, TrainingSection& training);

}  // namespace embers::job
