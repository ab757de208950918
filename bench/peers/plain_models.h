#pragma once

#include <memory>

#include "bench/peers/plain_tables.h"
#include "data/minibatch.h"
#include "job/job.h"

namespace embers {

// wide_deep, deepfm and dlrm of the zoo as one would write them with libtorch alone, in one process, for
// `embers bench train`: tables in one of two ways (plain_tables.h), torch::optim::Adam on the rest. The dense
// part is that of the zoo, with its pair_products and second_order. Layer sizes, learning rate, betas and
// epsilon are the job's; first values are those of the zoo's model, of rows drawn from the same distribution.
class PlainModel {
 public:
  struct Options {
    bool stacked = false;  // tables: PlainTables::stacked(), or bags()
    // The share of gradients of rows, drawn at random, that are applied only after those of the next
    // minibatch have been computed, or before an evaluation, as happens when the next minibatch's rows are
    // pulled ahead.
    double late = 0;
  };
  // Seconds of a step's parts.
  struct Times {
    double lookup = 0, dense = 0, gradient = 0, sparse_adam = 0, dense_adam = 0;
    // All that embeddings cost.
    double embedding() const { return lookup + gradient + sparse_adam; }
  };

  // kInvalid unless the job's model is one of the three, its optimizer adam, and all its categorical features
  // have a known number of ids, which is the number of rows of their table.
  static std::unique_ptr<PlainModel> make(const job::Job& job, const Options& options);
  virtual ~PlainModel() = default;
  // See PlainTables: of a minibatch that is trained on later. May be called while another is.
  using Prepared = std::shared_ptr<PlainTables::Prepared>;
  virtual Prepared prepare(const data::Minibatch& minibatch) = 0;
  // The mean loss; adds to `times`.
  virtual double train(const data::Minibatch& minibatch, Times& times, const Prepared& prepared = {}) = 0;
  virtual double evaluate(const data::Minibatch& minibatch) = 0;
};

}  // namespace embers
