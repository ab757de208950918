#include "bench/peers/dense_part.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "base/errors.h"
#include "model/layers/random.h"

namespace embers {
namespace {

constexpr int64_t kFields = 26;
constexpr int64_t kDim = 16;  // of dlrm and deepfm

torch::Tensor view(std::span<const float> v, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(v.data()), shape, torch::kFloat);
}

std::span<const float> floats(const torch::Tensor& t) {
  return {t.data_ptr<float>(), static_cast<size_t>(t.numel())};
}

// Linear layers with ReLU, and with batch normalization if asked for, after each.
class LayersImpl : public torch::nn::Module {
 public:
  LayersImpl(const std::vector<int64_t>& sizes, bool normalize) {
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      linears_.push_back(
          register_module(fmt::format("linear{}", i), torch::nn::Linear(sizes[i], sizes[i + 1])));
      if (normalize)
        norms_.push_back(register_module(fmt::format("norm{}", i), torch::nn::BatchNorm1d(sizes[i + 1])));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (size_t i = 0; i < linears_.size(); ++i) {
      x = linears_[i]->forward(x).relu();
      if (i < norms_.size()) x = norms_[i]->forward(x);
    }
    return x;
  }

 private:
  std::vector<torch::nn::Linear> linears_;
  std::vector<torch::nn::BatchNorm1d> norms_;
};
TORCH_MODULE(Layers);

class DensePartModule : public torch::nn::Module, public DensePart {
 public:
  double run(std::span<const float> numeric, std::span<const float> labels, std::span<const Block> deep,
             std::span<const Block> wide) override {
    const auto examples = static_cast<int64_t>(labels.size());
    if (inputs_.empty()) inputs_ = torch::nn::Module::parameters();
    deep_leaves_ = leaves(deep, examples);
    wide_leaves_ = leaves(wide, examples);
    const torch::Tensor fields = deep_leaves_.size() == 1 ? deep_leaves_.front() : at::cat(deep_leaves_, 1);
    torch::Tensor output = logits(view(numeric, {examples, kNumeric}), fields);
    for (const torch::Tensor& w : wide_leaves_) output = output + w;
    const torch::Tensor loss = torch::binary_cross_entropy_with_logits(output, view(labels, {examples, 1}));
    for (const auto* more : {&deep_leaves_, &wide_leaves_})
      for (const torch::Tensor& t : *more) t.mutable_grad() = torch::Tensor();
    for (const torch::Tensor& t : inputs_) t.mutable_grad() = torch::Tensor();
    loss.backward();
    for (const auto* more : {&deep_leaves_, &wide_leaves_})
      for (const torch::Tensor& t : *more) t.mutable_grad() = t.grad().contiguous();
    return loss.item<double>();
  }
  std::span<const float> deep_gradient(size_t block) const override {
    return floats(deep_leaves_.at(block).grad());
  }
  std::span<const float> wide_gradient(size_t block) const override {
    return floats(wide_leaves_.at(block).grad());
  }
  std::vector<Parameter> parameters() override {
    std::vector<Parameter> all;
    for (const torch::Tensor& t : inputs_)
      all.push_back({{t.data_ptr<float>(), static_cast<size_t>(t.numel())}, floats(t.grad())});
    return all;
  }

 protected:
  // numeric [N, 13], fields [N, sum of dims] -> [N, 1]
  virtual torch::Tensor logits(const torch::Tensor& numeric, const torch::Tensor& fields) = 0;

 private:
  static std::vector<torch::Tensor> leaves(std::span<const Block> blocks, int64_t examples) {
    std::vector<torch::Tensor> all;
    for (const Block& b : blocks) all.push_back(view(b.values, {examples, b.width}).requires_grad_());
    return all;
  }

  std::vector<torch::Tensor> inputs_, deep_leaves_, wide_leaves_;
};

class DlrmPart final : public DensePartModule {
 public:
  DlrmPart() : pairs_(at::tril_indices(kFields + 1, kFields + 1, -1)) {
    bottom_ = register_module("bottom", Layers(std::vector<int64_t>{kNumeric, 512, 256, 64, kDim}, true));
    top_ = register_module("top", Layers(std::vector<int64_t>{pairs_.size(1) + kDim, 512, 256}, false));
    last_ = register_module("last", torch::nn::Linear(256, 1));
  }

 private:
  torch::Tensor logits(const torch::Tensor& numeric, const torch::Tensor& fields) override {
    const torch::Tensor bottom = bottom_->forward(numeric);
    const torch::Tensor all = at::cat({bottom, fields}, 1).view({-1, kFields + 1, kDim});
    const torch::Tensor products = at::bmm(all, all.transpose(1, 2));
    const torch::Tensor pairs = products.index({torch::indexing::Slice(), pairs_[0], pairs_[1]});
    return last_->forward(top_->forward(at::cat({bottom, pairs}, 1)));
  }

  const torch::Tensor pairs_;
  Layers bottom_{nullptr}, top_{nullptr};
  torch::nn::Linear last_{nullptr};
};

class DeepFmPart final : public DensePartModule {
 public:
  DeepFmPart() {
    deep_ =
        register_module("deep", Layers(std::vector<int64_t>{kFields * kDim + kNumeric, 1024, 256, 32}, true));
    final_ = register_module("final", Layers(std::vector<int64_t>{32 + 1 + kDim, 128, 64}, true));
    last_ = register_module("last", torch::nn::Linear(64, 1));
  }

 private:
  torch::Tensor logits(const torch::Tensor& numeric, const torch::Tensor& fields) override {
    const torch::Tensor input = at::cat({fields, numeric}, 1);
    const torch::Tensor factors = fields.view({-1, kFields, kDim});
    const torch::Tensor second = 0.5 * (factors.sum(1).square() - factors.square().sum(1));
    const torch::Tensor all = at::cat({deep_->forward(input), input.sum(1, true), second}, 1);
    return last_->forward(final_->forward(all));
  }

  Layers deep_{nullptr}, final_{nullptr};
  torch::nn::Linear last_{nullptr};
};

constexpr int64_t kNarrow = 64, kBroad = 128, kNarrowFields = 18;

class WdlPart final : public DensePartModule {
 public:
  WdlPart() {
    const int64_t fields = kNarrowFields * kNarrow + (kFields - kNarrowFields) * kBroad;
    deep_ = register_module("deep", Layers(std::vector<int64_t>{fields + kNumeric, 1024, 512, 256}, false));
    last_ = register_module("last", torch::nn::Linear(256, 1));
    wide_ = register_module("wide", torch::nn::Linear(torch::nn::LinearOptions(kNumeric, 1).bias(false)));
  }

 private:
  torch::Tensor logits(const torch::Tensor& numeric, const torch::Tensor& fields) override {
    return last_->forward(deep_->forward(at::cat({fields, numeric}, 1))) + wide_->forward(numeric);
  }

  Layers deep_{nullptr};
  torch::nn::Linear last_{nullptr}, wide_{nullptr};
};

}  // namespace

const std::vector<DensePart::Shape>& DensePart::shapes() {
  static const std::vector<Shape> all = [] {
    const std::vector<int64_t> even(kFields, kDim);
    std::vector<int64_t> mixed(kFields, kBroad);
    std::fill_n(mixed.begin(), kNarrowFields, kNarrow);
    return std::vector<Shape>{{"dlrm", even, false}, {"deepfm", even, false}, {"wdl", mixed, true}};
  }();
  return all;
}

std::unique_ptr<DensePart> DensePart::make(const std::string& name) {
  seed_torch(1);
  if (name == "dlrm") return std::make_unique<DlrmPart>();
  if (name == "deepfm") return std::make_unique<DeepFmPart>();
  if (name == "wdl") return std::make_unique<WdlPart>();
  fail(ErrorCode::kInvalid, "there is no dense part named '{}'", name);
}

}  // namespace embers
