#include "model/layers/batch.h"

#include "base/suggest.h"

namespace embers {
namespace {

// Torch wants a mutable pointer; a model that writes to its input writes to a minibatch that nobody reads
// again.
torch::Tensor view_of(const std::vector<float>& values, std::vector<int64_t> shape) {
  return torch::from_blob(const_cast<float*>(values.data()), shape, torch::kFloat);
}

}  // namespace

Batch::Batch(const data::Minibatch& minibatch, const data::FeatureSchema& schema)
    : minibatch_(minibatch),
      schema_(schema),
      numeric_(view_of(minibatch.numeric, {minibatch.examples, static_cast<int64_t>(schema.numeric.size())})),
      labels_(view_of(minibatch.labels, {static_cast<int64_t>(minibatch.labels.size())})) {}

int64_t Batch::examples() const { return minibatch_.examples; }
torch::Tensor Batch::numeric() const { return numeric_; }
torch::Tensor Batch::labels() const { return labels_; }
const data::FeatureSchema& Batch::schema() const { return schema_; }
uint64_t Batch::counter() const { return (minibatch_.epoch << 32) + minibatch_.index; }

const Ids& Batch::ids(const std::string& feature) const {
  const int index = schema_.categorical_index(feature);
  if (index >= 0) return minibatch_.ids.at(static_cast<size_t>(index));
  std::vector<std::string> known;
  for (const data::CategoricalFeature& f : schema_.categorical) known.push_back(f.name);
  fail(ErrorCode::kInvalid, "the data has no categorical feature '{}'{}", feature,
       suggestion(feature, known));
}

}  // namespace embers
