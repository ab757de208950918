#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "data/minibatch.h"

namespace embers {

struct AdamSettings {
  double learning_rate = 0.001, beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7;
};

// The tables of a plain model, and Adam on those of their rows that a minibatch has, as
// torch.optim.SparseAdam defines it: a row's averages change only when the row has a gradient. Each group has
// one table a categorical feature, all of the same dim.
class PlainTables {
 public:
  using Tensors = std::vector<at::Tensor>;
  struct Group {
    int64_t dim;
    bool zero;  // first values: zeros, or uniform in [-0.05, 0.05)
  };

  // An EmbeddingBag(sparse) for each table, and SparseAdam operator by operator, as Python's does it.
  static std::unique_ptr<PlainTables> bags(const data::FeatureSchema& schema,
                                           const std::vector<Group>& groups, const AdamSettings& settings);
  // One matrix a group, with the tables' rows one table after another. A minibatch's ids are made unique once
  // for all groups, by a place for each row that there may be, and one loop over the unique rows does Adam.
  // Spread over libtorch's threads, but for prepare(), which makes ids unique. Features must have one id in
  // each example: kInvalid otherwise.
  static std::unique_ptr<PlainTables> stacked(const data::FeatureSchema& schema,
                                              const std::vector<Group>& groups, const AdamSettings& settings);
  virtual ~PlainTables() = default;

  // What can be worked out of a minibatch's ids before it is its turn, while another is trained on. One
  // thread at a time. Null where there is nothing.
  struct Prepared {
    virtual ~Prepared() = default;
  };
  virtual std::shared_ptr<Prepared> prepare(const data::Minibatch&) { return nullptr; }
  // For each group [N, features, dim], with gradients to be computed. `prepared`: of this minibatch, or null.
  virtual Tensors lookup(const data::Minibatch& minibatch, std::shared_ptr<Prepared> prepared = nullptr) = 0;
  // What apply() takes, of the gradients of what lookup() returned last. It is still good after later
  // lookups.
  virtual Tensors gradients(const Tensors& of_lookup) = 0;
  virtual void apply(const Tensors& gradients) = 0;
};

}  // namespace embers
