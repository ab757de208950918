#pragma once

#include <torch/types.h>

#include <memory>
#include <string>

#include "data/minibatch.h"

namespace embers {

// A minibatch as a model's forward sees it. Tensors view the minibatch's memory; nothing is copied.
class Batch {
 public:
  // Both arguments outlive the batch.
  Batch(const data::Minibatch& minibatch, const data::FeatureSchema& schema);

  int64_t examples() const;       // N
  torch::Tensor numeric() const;  // float32 [N, number of numeric features]
  torch::Tensor labels() const;   // float32 [N]; [0] for data without labels
  // Ids of a categorical feature; kInvalid naming the nearest feature if there is none of this name.
  const Ids& ids(const std::string& feature) const;
  const data::FeatureSchema& schema() const;
  // (epoch << 32) + minibatch: what counter-based random layers use; it does not depend on the worker.
  uint64_t counter() const;

 private:
  const data::Minibatch& minibatch_;
  const data::FeatureSchema& schema_;
  torch::Tensor numeric_, labels_;
};

}  // namespace embers
