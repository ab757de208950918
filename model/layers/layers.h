#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <vector>

#include "model/layers/dropout.h"
#include "model/layers/embedding.h"
#include "model/layers/model.h"

namespace embers {

// What the models of the zoo have in common.

// Linear layers with ReLU and dropout between them: sizes {in, h1, ..., out}, nothing after the last one.
class MlpImpl : public torch::nn::Module {
 public:
  // kInvalid naming `setting` unless all sizes are positive. The dropout layers are 0, 1, ... of the model.
  MlpImpl(const std::vector<int64_t>& sizes, const std::string& setting, double dropout, uint64_t seed);
  torch::Tensor forward(torch::Tensor x, const Batch& batch);

 private:
  std::vector<torch::nn::Linear> linears_;
  std::vector<Dropout> dropouts_;  // after each linear layer but the last
};
TORCH_MODULE(Mlp);

// One Embedding per categorical feature, with a table of its own.
class FieldsImpl : public torch::nn::Module {
 public:
  struct Options {
    std::string prefix;  // table of feature f: prefix + f
    int64_t dim;         // where [storage.tables] gives none
    Combiner combiner;
    InitializerSpec initializer;
  };
  FieldsImpl(const ModelConfig& config, const Options& options);
  // One [N, dim] per categorical feature, in the data's order.
  std::vector<torch::Tensor> forward(const Batch& batch);
  // Fields of dim 1, added up for each example: [N, 1]; zeros without any.
  torch::Tensor sum(const Batch& batch);
  int64_t total_dim() const;
  // kInvalid naming the first table to which [storage.tables] gives another dim.
  void check_dims(const std::string& model, int64_t dim) const;

 private:
  std::vector<std::string> features_;
  std::vector<Embedding> embeddings_;
};
TORCH_MODULE(Fields);

}  // namespace embers
