#include "model/step.h"

#include "base/stage_times.h"
#include "model/backward.h"
#include "model/dense.h"
#include "model/forward.h"
#include "model/layers/random.h"
#include "model/lookup/kernels/row_kernels.h"

namespace embers {
namespace {

std::vector<float> scores_of(Model& model, const std::string& name, const torch::Tensor& output,
                             int64_t examples) {
  const torch::NoGradGuard no_grad;
  torch::Tensor scores;
  guard_user_code(name, "score", [&] { scores = model.score(output).to(torch::kFloat).contiguous(); });
  if (scores.numel() != examples)
    fail(ErrorCode::kInvalid, "model '{}': score gave {} numbers for {} examples", name, scores.numel(),
         examples);
  const float* const first = scores.data_ptr<float>();
  return {first, first + examples};
}

std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& tensor : tensors) gradients.push_back(tensor.grad());
  return gradients;
}

class Runner final : public ModelRunner {
 public:
  Runner(const job::Job& job, std::shared_ptr<Model> model)
      : name_(job.model.name.empty() ? job.model.library : job.model.name),
        seed_(job.job.seed),
        model_(std::move(model)),
        found_(discover(*model_, job)),
        dense_(dense_tensors(*model_)) {
    row_kernels();  // throws here, where errors are told apart, if the environment names none of them
  }

  const ModelSpec& spec() const override { return found_.spec; }
  Model& model() override { return *model_; }
  void add_columns(data::Minibatch& minibatch) const override {
    // Reserved: derivations read features of the minibatch while theirs are added.
    minibatch.ids.reserve(minibatch.ids.size() + found_.derived.size());
    for (const data::Derivation& derivation : found_.derived)
      minibatch.ids.push_back(derivation.derive(minibatch));
  }
  Lookups dedupe(const data::Minibatch& minibatch) const override {
    return embers::dedupe(found_.plan, minibatch);
  }

  StepResult train(const data::Minibatch& minibatch, const Lookups& lookups, PulledRows rows,
                   const LatePull& late) override {
    StepResult result = begin(minibatch, rows);
    if (minibatch.examples > 0) {
      MinibatchRows bound(found_, minibatch, lookups, std::move(rows.bets), late, memory_, true);
      const Batch batch(minibatch, found_.schema);
      seed_torch(seed_ ^ batch.counter());
      StopWatch watch;
      const torch::Tensor output = run_forward(*model_, name_, batch, true);
      torch::Tensor loss = run_loss(*model_, name_, output, batch, minibatch);
      if (const torch::Tensor penalty = bound.penalty(); penalty.defined()) loss = loss + penalty;
      run_backward(name_, loss);
      result.combine_seconds = bound.pass().seconds;
      result.dense_seconds = watch.lap() - result.combine_seconds;
      result.loss_sum = loss.item<double>() * static_cast<double>(minibatch.examples);
      result.scores = scores_of(*model_, name_, output, minibatch.examples);
      result.gradients = indexed_slices(bound);
    }
    result.dense = to_chunks(gradients_of(dense_), found_.spec, false);
    result.buffers = to_chunks(dense_, found_.spec, true);
    return result;
  }

  StepResult evaluate(const data::Minibatch& minibatch, const Lookups& lookups, PulledRows rows,
                      const LatePull& late) override {
    StepResult result = begin(minibatch, rows);
    if (minibatch.examples == 0) return result;
    MinibatchRows bound(found_, minibatch, lookups, std::move(rows.bets), late, memory_, false);
    const Batch batch(minibatch, found_.schema);
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = run_forward(*model_, name_, batch, false);
    if (!minibatch.labels.empty())
      result.loss_sum = run_loss(*model_, name_, output, batch, minibatch).item<double>() *
                        static_cast<double>(minibatch.examples);
    result.scores = scores_of(*model_, name_, output, minibatch.examples);
    return result;
  }

 private:
  // Loads the dense rows that arrived and forgets earlier gradients.
  StepResult begin(const data::Minibatch& minibatch, const PulledRows& rows) {
    if (rows.dense.size() > 0) from_chunks(rows.dense.span(), found_.spec, false, dense_);
    if (rows.buffers.size() > 0) from_chunks(rows.buffers.span(), found_.spec, true, dense_);
    for (torch::Tensor& tensor : dense_) tensor.mutable_grad() = torch::Tensor();
    StepResult result;
    result.examples = minibatch.examples;
    return result;
  }

  const std::string name_;
  const uint64_t seed_;
  const std::shared_ptr<Model> model_;
  const Discovery found_;
  std::vector<torch::Tensor> dense_;  // the model's own tensors, in order of spec().dense
  CombineMemory memory_;
};

}  // namespace

std::unique_ptr<ModelRunner> ModelRunner::make(const job::Job& job) { return make(job, make_model(job)); }

std::unique_ptr<ModelRunner> ModelRunner::make(const job::Job& job, std::shared_ptr<Model> model) {
  return std::make_unique<Runner>(job, std::move(model));
}

}  // namespace embers
