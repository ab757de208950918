#include "model/layers/dropout.h"

#include <torch/types.h>

#include "base/errors.h"

namespace embers {
namespace {

// Sebastiano Vigna's splitmix64: one multiply-xorshift chain per number, its state a plain counter.
uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

DropoutImpl::DropoutImpl(double rate, uint64_t seed, uint64_t layer)
    : rate_(rate), seed_(seed), layer_(layer) {
  if (!(rate >= 0 && rate < 1))
    fail(ErrorCode::kInvalid, "dropout rate {} is not in [0, 1): give the share of elements to drop", rate);
}

torch::Tensor DropoutImpl::forward(const torch::Tensor& input, const Batch& batch) {
  if (!is_training() || rate_ == 0) return input;
  const uint64_t stream = splitmix(splitmix(splitmix(seed_) ^ batch.counter()) ^ layer_);
  const auto dropped_below = static_cast<uint64_t>(rate_ * 0x1p53);
  const auto scale = static_cast<float>(1 / (1 - rate_));
  torch::Tensor mask = torch::empty(input.sizes(), torch::kFloat);
  float* const out = mask.data_ptr<float>();
  for (int64_t i = 0; i < mask.numel(); ++i)
    out[i] = splitmix(stream + static_cast<uint64_t>(i)) >> 11 < dropped_below ? 0 : scale;
  return input * mask;
}

}  // namespace embers
