#include "job/sections/training_section.h"

#include <fmt/format.h>

#include "job/document/section.h"

namespace embers::job {
namespace {

constexpr int64_t kMostThreads = 4096;

// Settings that would break what sync mode promises, or have no effect there.
void check_sync(const Section& section, const TrainingSection& training) {
  if (training.get_model_steps > 1)
    section.fail_at("get_model_steps",
                    fmt::format("'get_model_steps' is {}, but in sync mode every gradient is computed on the "
                                "current version: leave it at 1, or choose mode \"async\" or \"bounded\"",
                                training.get_model_steps));
  if (training.cache_rows > 0)
    section.fail_at("cache_rows",
                    fmt::format("'cache_rows' is {}, but in sync mode every row is read at the current "
                                "version: leave it out, or choose mode \"async\" or \"bounded\"",
                                training.cache_rows));
  if (training.staleness_modulation)
    section.fail_at(
        "staleness_modulation",
        "'staleness_modulation' has no meaning in sync mode, where no gradient is stale: leave it "
        "out, or choose mode \"async\" or \"bounded\"");
}

}  // namespace

void read(Section& section, TrainingSection& training) {
  section.read_choice("mode", training.mode,
                      {{"async", Mode::kAsync}, {"sync", Mode::kSync}, {"bounded", Mode::kBounded}});
  section.read_choice("reduction", training.reduction,
                      {{"mean", Reduction::kMean}, {"sum", Reduction::kSum}});
  section.read_count("batch_size", training.batch_size, 1);
  section.read_count("epochs", training.epochs, 1);
  section.read_count("workers", training.workers, 1, kMostWorkers);
  section.read_count("grads_to_wait", training.grads_to_wait, 1);
  section.read_count("prefetch", training.prefetch, 0);
  section.read_count("threads", training.threads, 1, kMostThreads);
  section.read_count("minibatches_per_lease", training.minibatches_per_lease, 1);
  section.read_count("staleness_bound", training.staleness_bound, 0);
  section.read("staleness_modulation", training.staleness_modulation);
  section.read_count("get_model_steps", training.get_model_steps, 1);
  section.read_count("cache_rows", training.cache_rows, 0);
  section.read_count("cache_staleness", training.cache_staleness, 0);
  section.read_choice("on_bad_gradient", training.skip_bad_gradients, {{"error", false}, {"skip", true}});
  if (training.mode == Mode::kSync) check_sync(section, training);
  section.done();
}

}  // namespace embers::job
