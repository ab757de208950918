#include "model/layers/model.h"

namespace embers {

torch::Tensor Model::loss(const torch::Tensor& output, const Batch& batch) {
  const int64_t n = batch.examples();
  if (batch.labels().numel() != n)
    fail(ErrorCode::kInvalid, "{} examples have {} labels: training needs a column of type label", n,
         batch.labels().numel());
  if (output.dim() != 1 || output.size(0) != n)
    fail(ErrorCode::kInvalid, "forward must return logits of shape [{}], not {}", n,
         c10::str(output.sizes()));
  return at::binary_cross_entropy_with_logits(output, batch.labels());
}

torch::Tensor Model::score(const torch::Tensor& output) { return output.sigmoid(); }

}  // namespace embers
