#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/floats/float_buffer.h"
#include "data/minibatch.h"
#include "job/job.h"
#include "model/lookup/dedupe.h"
#include "schema/pulled_rows.h"
#include "schema/table_spec.h"

// What trainers use. Free of libtorch, so that only model/ pays for compiling its headers.
namespace embers {

class Model;

// Tables (with the job's overrides: optimizer, initializer), dense parameters and buffers of a model, found
// by walking its modules. The reserved tables come last: kDenseTable if there are parameters, with the job's
// optimizer, kBufferTable if there are buffers, with optimizer `assign` and Accumulation::kLast. kInvalid
// when two layers disagree about one table's dim or kind, or [storage.tables] gives a dim that the model did
// not take.
ModelSpec model_spec(const Model& model, const job::Job& job);

// Current values of dense parameters (buffer == false) or buffers, cut into dense_chunks(): [chunks x
// kDenseChunk], padding zero.
FloatBuffer dense_values(const Model& model, const ModelSpec& spec, bool buffer);

// Gradients of one table, keys unique: values[keys.size() x dim].
struct IndexedSlices {
  TableId table;
  Keys keys;
  FloatBuffer values;
};

struct StepResult {
  double loss_sum = 0;  // loss times examples (mean losses), for reports
  int64_t examples = 0;
  std::vector<float> scores;  // [N]
  // Embedding tables whose rows got a gradient, in order of table id: all unique keys of the minibatch, those
  // of late pulls after them.
  std::vector<IndexedSlices> gradients;
  FloatBuffer dense;           // gradients of dense_chunks(spec, false): [chunks x kDenseChunk], padding zero
  FloatBuffer buffers;         // new values of dense_chunks(spec, true)
  double dense_seconds = 0;    // forward, loss and backward, without ...
  double combine_seconds = 0;  // ... the embeddings' share of them
};

// One model instance and the passes over it. Not thread safe: one per trainer. add_columns() and dedupe() may
// run on another thread than the passes: it uses only what is constant after construction.
class ModelRunner {
 public:
  // Rows of keys that were not deduped ahead, pulled during the forward pass: out[keys.size() x dim].
  using LatePull = std::function<void(TableId table, KeysView keys, std::span<float> out)>;

  // make_model(job), or a model that the caller built.
  static std::unique_ptr<ModelRunner> make(const job::Job& job);
  static std::unique_ptr<ModelRunner> make(const job::Job& job, std::shared_ptr<Model> model);
  virtual ~ModelRunner() = default;
  virtual const ModelSpec& spec() const = 0;
  virtual Model& model() = 0;
  // Adds the categorical features that the model's feature columns make of the data's, once, before dedupe().
  // kInvalid naming record and column for a value that a column cannot take.
  virtual void add_columns(data::Minibatch& minibatch) const = 0;
  virtual Lookups dedupe(const data::Minibatch& minibatch) const = 0;
  // forward, loss, backward. The same result bit for bit for the same rows, whatever ran before. A minibatch
  // without examples (all its rows were skipped) has loss 0, no slices and zero dense gradients; the model is
  // not called. Errors: kInvalid naming the model for what its code throws, and naming the minibatch when
  // the loss is not finite.
  virtual StepResult train(const data::Minibatch& minibatch, const Lookups& lookups, PulledRows rows,
                           const LatePull& late) = 0;
  // forward only, in evaluation mode; gradients empty. Without labels the loss is 0.
  virtual StepResult evaluate(const data::Minibatch& minibatch, const Lookups& lookups, PulledRows rows,
                              const LatePull& late) = 0;
};

// OpenBLAS takes a processor it does not know (one that is newer, or a virtual machine's) for a Prescott, and
// then computes three times slower than it could. Makes it use its AVX2 or AVX-512 kernels where the
// processor has these, unless the environment says which to take (OPENBLAS_CORETYPE). Call first in main():
// nothing may compute meanwhile.
void choose_blas_core();

// Numbers of threads for every operator of the calling thread (libtorch and BLAS). Call first in each trainer
// thread.
void set_threads(uint32_t threads);

// What must agree for equal results, as "name=value" lines: threads, BLAS library and core type, libtorch
// version, vector capability, kernels of the lookups (see row_kernels()). `warning` gets a line when the BLAS
// is the slow reference one.
std::vector<std::string> numeric_settings(uint32_t threads, std::string* warning = nullptr);

}  // namespace embers
