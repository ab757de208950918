#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "job/job.h"
#include "model/layers/batch.h"

namespace embers {

// What a model is built from: the features of the data and the keys of the job's [model] section. Every key
// that a model reads is known; a key that nobody read is an error with the nearest known one (see
// check_all_read).
class ModelConfig {
 public:
  explicit ModelConfig(const job::Job& job);
  const data::FeatureSchema& features() const;
  const std::string& name() const;  // model.name
  uint64_t seed() const;            // job.seed
  // Where a key of [model] stands, for messages: "job.toml:12", or "--set model.key=value".
  std::string place(const std::string& key) const;
  // Values of [model]; `otherwise` when the key is absent; kInvalid with file:line when it has another type.
  int64_t get_int(const std::string& key, int64_t otherwise) const;
  double get_double(const std::string& key, double otherwise) const;
  bool get_bool(const std::string& key, bool otherwise) const;
  std::string get_string(const std::string& key, const std::string& otherwise) const;
  std::vector<int64_t> get_ints(const std::string& key, std::vector<int64_t> otherwise) const;
  std::vector<std::string> get_strings(const std::string& key, std::vector<std::string> otherwise) const;
  // The entries of [columns], for models with an input layer: see feature_column.h. A job that has some is an
  // error unless its model asks for them.
  const std::vector<job::InputColumn>& columns() const;
  // Dim of a table: what [storage.tables] says, else `otherwise`.
  int64_t dim(const std::string& table, int64_t otherwise) const;
  // kInvalid naming the first key of [model] that was never asked for, with the nearest one that was.
  void check_all_read() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Base of every model. Derive, register Embedding layers and others as torch modules, implement forward.
class Model : public torch::nn::Module {
 public:
  // Logits [N] (or predictions, for a model with a loss of its own).
  virtual torch::Tensor forward(const Batch& batch) = 0;
  // Scalar. Default: mean binary cross entropy with logits.
  virtual torch::Tensor loss(const torch::Tensor& output, const Batch& batch);
  // Scores [N] for AUC, accuracy (score >= 0.5) and predictions. Default: sigmoid of the output.
  virtual torch::Tensor score(const torch::Tensor& output);
};

// A user's shared library ends with EMBERS_MODEL(MyModel), MyModel having a constructor from const
// ModelConfig&; or it defines embers_make_model itself to serve several names (return nullptr for an unknown
// one).
inline constexpr uint32_t kModelAbi = 2;
#define EMBERS_MODEL(Class)                                                            \
  extern "C" uint32_t embers_model_abi() { return ::embers::kModelAbi; }               \
  extern "C" ::embers::Model* embers_make_model(const ::embers::ModelConfig& config) { \
    return new Class(config);                                                          \
  }

// The model of the job: from [model] library if given (dlopen, never unloaded), else from the zoo. torch's
// random state is seeded with job.seed first, so that every process builds the same initial parameters.
// Errors, all kInvalid: an unknown model (nearest suggested); a library that does not load, lacks the factory
// or has another ABI; unknown [model] keys.
std::shared_ptr<Model> make_model(const job::Job& job);

}  // namespace embers
