#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "model/layers/regularizer.h"
#include "model/lookup/combine.h"
#include "schema/ids.h"
#include "schema/table_spec.h"

namespace embers {

// Floats of a row at most: one row stays far below a message.
inline constexpr int64_t kMaxDim = 65536;

struct EmbeddingOptions {
  EmbeddingOptions(std::string table, int64_t output_dim) : table(std::move(table)), output_dim(output_dim) {}
  std::string table;  // layers with one name share one table
  int64_t output_dim;
  KeyKind key_kind = KeyKind::kBytes;
  // Weights of ids (Ids::weights) need one. As tf.nn.safe_embedding_lookup_sparse: mean and sqrtn leave out
  // ids of weight <= 0.
  Combiner combiner = Combiner::kNone;
  // Rows of a larger L2 norm are scaled down to it when they are looked up, before they are combined, and so
  // is their gradient, as tf.clip_by_norm has it. The table keeps them as they are. 0: none.
  double max_norm = 0;
  // Id 0 (or "") is padding, as in Keras: combiners leave it out, as if the example did not have it; without
  // a combiner its row is looked up like any other. compute_mask() shows where it stands.
  bool mask_zero = false;
  InitializerSpec initializer{"uniform", {}};  // Keras' embeddings_initializer
  // On the rows that a minibatch touches, each once a table, however often it is looked up: Keras adds the
  // whole table's, which a lazy table never has. Only in training.
  Regularizer embeddings_regularizer;
  // On the outputs of each call, divided by the number of examples, as Keras does. Only in training.
  Regularizer activity_regularizer;
  // What rows fulfil after each apply that touched them (storage/rows/constraint.h): max_norm, non_neg,
  // unit_norm, min_max_norm.
  ConstraintSpec embeddings_constraint;
  int64_t input_length = 0;  // ids an example: any other number is an error; 0 for any
  int64_t input_dim = 0;     // only for the initializer's fans
  // Features whose ids forward() will be given. They are deduped and pulled ahead of the forward pass, all
  // tables in one message per owner. Ids of other origin are pulled during the forward pass, one more round
  // trip each.
  std::vector<std::string> features;
};

// tf.keras.layers.Embedding over a table in the parameter server. The table is not a parameter of the module:
// rows of the minibatch arrive as the BET leaf tensor.
class EmbeddingImpl : public torch::nn::Module {
 public:
  // kInvalid naming the table when its name or dim is unusable.
  explicit EmbeddingImpl(EmbeddingOptions options);

  // Ragged or dense string or int64 ids from the batch.
  //   combiner none: dense N x M ids (width M) -> [N, M, dim]; ragged ids are kInvalid
  //   else:          [N, dim]; an example without ids gives zeros
  // Errors: kInvalid for ids of the other kind, for weights without a combiner or of another number than the
  // ids, or outside the pass of a minibatch.
  torch::Tensor forward(const Ids& ids);
  // Dense int64 ids of any rank: shape [..., M] -> combiner none: [..., M, dim]; else [..., dim]. int64
  // tables only.
  torch::Tensor forward(const torch::Tensor& ids);
  // bool, shaped as the ids; an undefined tensor without mask_zero (as Keras' compute_mask returns None).
  torch::Tensor compute_mask(const torch::Tensor& ids) const;

  const EmbeddingOptions& options() const { return options_; }
  void pretty_print(std::ostream& stream) const override;

  // Where a call finds rows (see forward.h): set for the length of one pass, else nullptr.
  class Rows;
  void bind(Rows* rows) { rows_ = rows; }

 private:
  Rows& rows() const;
  EmbeddingOptions options_;
  Rows* rows_ = nullptr;
};
TORCH_MODULE(Embedding);

}  // namespace embers
