#pragma once

#include <torch/types.h>

#include <vector>

#include "model/lookup/kernels/pair_product_kernels.h"

namespace embers {

constexpr int64_t kExamplesPerThread = 64;  // at least, to be worth one

// Fields of examples for the kernels, read where they are: each part is one field, [N, D], or several,
// [N, any, D].
class FieldParts {
 public:
  // Of float32. kInvalid unless N and D are the same in all of them, and there is one.
  explicit FieldParts(at::TensorList parts);

  int64_t examples() const { return parts_.front().size(0); }
  const FieldsShape& shape() const { return shape_; }
  std::vector<FieldRows<const float>> rows() const;
  // Contiguous, to be saved for the backward pass.
  const std::vector<torch::Tensor>& tensors() const { return parts_; }
  // For parts_of(): fields of each part, -1 for [N, D].
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  std::vector<torch::Tensor> parts_;
  std::vector<int64_t> counts_;
  FieldsShape shape_;
};

// Views of fields [N, F, D] as the parts with these counts.
std::vector<torch::Tensor> parts_of(const torch::Tensor& fields, const std::vector<int64_t>& counts);

}  // namespace embers
