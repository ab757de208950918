#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/table_spec.h"
#include "storage/store.h"

namespace embers::storage {

// How a row changes: one kernel over spans, its hyper-parameters, and its slots with their first values.
// Stateless: the step and the learning rate come with the call. *Lazy*: rows without a gradient are never
// touched.
class Optimizer {
 public:
  struct Slot {
    std::string name;  // "m", "v", "accumulator"
    float initial;     // never the table's initializer
  };
  // What one apply of one version has in common for all its rows.
  struct Step {
    uint64_t step = 1;  // the model's, global, 1 for the first apply
    double learning_rate = 0.01;
  };
  // sgd, adagrad, adam (and assign, for reserved buffers: row = gradient), with the definitions of
  // torch.optim (adam on rows as SparseAdam) and Keras names for hyper-parameters. kInvalid naming the
  // nearest known name.
  static std::unique_ptr<const Optimizer> make(const OptimizerSpec& spec);
  virtual ~Optimizer() = default;

  virtual const std::vector<Slot>& slots() const = 0;  // each of dim floats
  virtual double learning_rate() const = 0;            // the spec's
  // The kernel of one step, for any number of rows: what the step's rows share (Adam's bias correction) is
  // computed here, once. Each element depends on its own row, slot and gradient elements alone, not on dim or
  // place. Outlived by the optimizer. The kernel throws kInternal when slots[] is not |slots| x dim.
  virtual UpdateKernel kernel(const Step& step) const = 0;
  // One row: row[dim], slots[|slots| x dim], grad[dim].
  void apply(const Step& step, std::span<float> row, std::span<float> slots,
             std::span<const float> grad) const {
    kernel(step)(row, slots, grad);
  }
};

// Those a user may choose: without assign.
const std::vector<std::string>& optimizer_names();

// First values of all slots of a row: |slots| x dim floats, as Store::add_table takes them.
std::vector<float> slot_init(const Optimizer& optimizer, uint32_t dim);

}  // namespace embers::storage
