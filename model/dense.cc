#include "model/dense.h"

#include <algorithm>

#include "model/step.h"

namespace embers {
namespace {

DenseParam describe(const std::string& name, const torch::Tensor& tensor, bool buffer) {
  const bool known =
      tensor.scalar_type() == torch::kFloat || (buffer && tensor.scalar_type() == torch::kLong);
  if (!known)
    fail(ErrorCode::kInvalid, "{} '{}' has elements of type {}: only float32 is kept{}",
         buffer ? "buffer" : "parameter", name, c10::toString(tensor.scalar_type()),
         buffer ? ", and int64 for buffers" : "");
  return {name, tensor.sizes().vec(), buffer};
}

int64_t padded(int64_t numel) { return (numel + kDenseChunk - 1) / kDenseChunk * kDenseChunk; }

// Calls visit(i, begin, numel) for each tensor of one sort; `begin` is its first float in the rows. Returns
// all floats.
template <class Visit>
size_t for_each_part(const ModelSpec& spec, bool buffer, const Visit& visit) {
  int64_t begin = 0;
  for (size_t i = 0; i < spec.dense.size(); ++i) {
    if (spec.dense[i].buffer != buffer) continue;
    const int64_t numel = spec.dense[i].numel();
    visit(i, begin, numel);
    begin += padded(numel);
  }
  return static_cast<size_t>(begin);
}

size_t total(const ModelSpec& spec, bool buffer) {
  return for_each_part(spec, buffer, [](size_t, int64_t, int64_t) {});
}

torch::Tensor view_of(const float* floats, c10::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(floats), shape, torch::kFloat);
}

}  // namespace

std::vector<DenseParam> dense_params(const Model& model) {
  std::vector<DenseParam> params;
  for (const auto& item : model.named_parameters())
    params.push_back(describe(item.key(), item.value(), false));
  for (const auto& item : model.named_buffers()) params.push_back(describe(item.key(), item.value(), true));
  return params;
}

std::vector<torch::Tensor> dense_tensors(const Model& model) {
  std::vector<torch::Tensor> tensors = model.parameters();
  for (const torch::Tensor& buffer : model.buffers()) tensors.push_back(buffer);
  return tensors;
}

FloatBuffer to_chunks(std::span<const torch::Tensor> tensors, const ModelSpec& spec, bool buffer) {
  const torch::NoGradGuard no_grad;
  FloatBuffer chunks(total(spec, buffer));
  std::fill_n(chunks.data(), chunks.size(), 0.0f);
  for_each_part(spec, buffer, [&](size_t i, int64_t begin, int64_t numel) {
    if (numel > 0 && tensors[i].defined())
      view_of(chunks.data() + begin, tensors[i].sizes()).copy_(tensors[i]);
  });
  return chunks;
}

void from_chunks(std::span<const float> chunks, const ModelSpec& spec, bool buffer,
                 std::span<torch::Tensor> tensors) {
  if (chunks.size() != total(spec, buffer))
    fail(ErrorCode::kInternal, "{} floats arrived for dense {}, which have {}", chunks.size(),
         buffer ? "buffers" : "parameters", total(spec, buffer));
  const torch::NoGradGuard no_grad;
  for_each_part(spec, buffer, [&](size_t i, int64_t begin, int64_t numel) {
    if (numel > 0) tensors[i].copy_(view_of(chunks.data() + begin, tensors[i].sizes()));
  });
}

FloatBuffer dense_values(const Model& model, const ModelSpec& spec, bool buffer) {
  return to_chunks(dense_tensors(model), spec, buffer);
}

}  // namespace embers
