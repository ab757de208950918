#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "model/layers/regularizer.h"
#include "model/layers/row_source.h"
#include "model/lookup/combiner.h"
#include "model/lookup/dedupe.h"
#include "model/lookup/operators/lookup_tensors.h"
#include "schema/ids.h"
#include "schema/table_spec.h"

namespace embers {

// The most floats of a row: one row stays far smaller than a message may be.
inline constexpr int64_t kMaxDim = 65536;

struct EmbeddingOptions {
  EmbeddingOptions(std::string table, int64_t output_dim) : table(std::move(table)), output_dim(output_dim) {}
  explicit EmbeddingOptions(int64_t output_dim) : output_dim(output_dim) {}
  // Layers with one name share one table. A layer without one gets a table of its own, named as Keras names
  // layers: embedding, embedding_1, ..., in the order in which the model's modules were registered, leaving
  // out names that other layers were given. Checkpoints know tables by their names: a layer without one that
  // is added before others shifts their names, so name the tables of a model whose checkpoints are to outlive
  // changes to it.
  std::string table;
  int64_t output_dim;
  // Kind of the table's keys. Not set: that of the layer's features, else that of another layer on the table,
  // else bytes.
  std::optional<KeyKind> key_kind;
  // Weights of ids need one. As tf.nn.safe_embedding_lookup_sparse: mean and sqrtn leave out ids of weight <=
  // 0.
  Combiner combiner = Combiner::kNone;
  // What is given to an example that has no ids, or whose ids were all left out: the row of this key, with
  // weight 1. Without one it gets zeros. An int64, or a string for tables with byte keys. Needs a combiner.
  std::optional<TableKey> default_id;
  // true: ids < 0 (or "") are left out too, as DeepRec's `prune`, before they are looked up: their rows are
  // neither pulled nor made. Not set: they are keys like any other, since tables are not zero-based. false:
  // as not set, and ids of weight <= 0 count as well. Needs a combiner.
  std::optional<bool> prune_invalid_ids;
  // Rows of a larger L2 norm are scaled down to it when they are looked up, before they are combined, and so
  // is their gradient, as tf.clip_by_norm has it: the factor is differentiated. (DeepRec's fused operators
  // hold it constant.) The table keeps them as they are. 0: none.
  double max_norm = 0;
  // Id 0 (or "") is padding, as in Keras: combiners leave it out, as if the example did not have it; without
  // a combiner its row is looked up like any other. compute_mask() shows where it stands.
  bool mask_zero = false;
  InitializerSpec initializer{"uniform", {}};  // Keras' embeddings_initializer
  // On the rows that a minibatch touches, each once per table, however often it is looked up: Keras penalizes
  // the whole table, which a lazy table never has. Only in training.
  Regularizer embeddings_regularizer;
  // On the outputs of each call, divided by the number of examples, as Keras does. Only in training.
  Regularizer activity_regularizer;
  // What rows must satisfy after each apply that touched them (storage/rows/constraint.h): max_norm, non_neg,
  // unit_norm, min_max_norm.
  ConstraintSpec embeddings_constraint;
  int64_t input_length = 0;  // ids per example: any other number is an error; 0 for any
  int64_t input_dim = 0;     // only for the initializer's fans
  // Features whose ids forward() will be given. They are deduped and pulled ahead of the forward pass, all
  // tables in one message per owner. Ids from elsewhere are pulled during the forward pass, with one more
  // round trip each.
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
  // Errors: kInvalid for ids of the other kind, for weights without a combiner or not as many as ids, or
  // outside the pass of a minibatch.
  torch::Tensor forward(const Ids& ids);
  // Dense ids of any rank: shape [..., M] -> combiner none: [..., M, dim]; else [..., dim]. int64 tables
  // only; int32 and smaller ids are cast to int64. `weights`, float32 and shaped as the ids, needs a
  // combiner, and gets a gradient if it requires one.
  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& weights = {});
  // A tf.SparseTensor: indices, values (cast as above), dense shape, and weights if there are any ->
  // dense_shape without its last dimension, then dim. Needs a combiner; kInvalid for what bag_offsets()
  // refuses.
  torch::Tensor forward(const SparseIdTensors& ids);
  // bool, shaped as the ids; an undefined tensor without mask_zero (as Keras' compute_mask returns None).
  torch::Tensor compute_mask(const torch::Tensor& ids) const;
  // The same for ids of the batch: [N, M] where they are dense, else one for each id, example after example,
  // as the flat values of a tf.RaggedTensor.
  torch::Tensor compute_mask(const Ids& ids) const;

  const EmbeddingOptions& options() const { return options_; }
  // As the options give them, or as they were found when the model was discovered.
  const std::string& table() const { return table_; }
  KeyKind key_kind() const { return key_kind_; }
  void pretty_print(std::ostream& stream) const override;

  // For the code that discovers models. kInvalid for a default_id of another kind.
  void settle(std::string table, KeyKind kind);
  // Where calls find rows: set for the length of one pass, else nullptr.
  void bind(RowSource* rows) { rows_ = rows; }

 private:
  RowSource& rows() const;
  torch::Tensor lookup(const torch::Tensor& ids, std::vector<int64_t> offsets, const torch::Tensor& weights,
                       std::vector<int64_t> shape);
  EmbeddingOptions options_;
  std::string table_;
  KeyKind key_kind_;
  RowSource* rows_ = nullptr;
};
TORCH_MODULE(Embedding);

// Which of its features' ids a layer of these options looks up.
IdRules id_rules(const EmbeddingOptions& options);

}  // namespace embers
