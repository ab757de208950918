#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schema/table_spec.h"
#include "storage/rows/store.h"
#include "storage/update_rules/schedule.h"

namespace embers::storage {

struct UpdateFormula;

// How gradients are clipped before they are applied, with Keras's names. 0 means none; at most one is set.
struct Clipping {
  double value = 0;        // clipvalue: each element to [-value, value]
  double norm = 0;         // clipnorm: each variable's gradient to this norm
  double global_norm = 0;  // global_clipnorm: the gradient of all variables to this norm
  bool needs_norms() const { return norm > 0 || global_norm > 0; }
};

// A step that can be undone: does what a RowsKernel does to rows from `begin` on, up to and including the
// first that is not finite afterwards, itself or its slots. Returns the index of that row, and leaves in
// before[dim + slot_floats] what the row and its slots were; returns rows.size() if there is no such row, and then
// anything may be in `before`.
using GuardedKernel = std::function<size_t(const RowsToUpdate& rows, size_t begin, float* before)>;

// How a row changes: an update formula (each has a file in this folder) with its hyper-parameters, its slots
// with their first values, weight decay, clipping and learning-rate schedule. Stateless: the step and the
// learning rate come with the call. *Lazy*: rows without a gradient are never touched.
class UpdateRule {
 public:
  struct Slot {
    std::string name;        // "m", "v", "accumulator"
    float initial;           // never the table's initializer
    bool whole_row = false;  // one float per row, not one for each of its floats
    size_t width(size_t dim) const { return whole_row ? 1 : dim; }
  };
  // What all rows of one apply share.
  struct Step {
    uint64_t step = 1;  // the model's, global, 1 for the first apply
    double learning_rate = 0.01;
  };
  // Each rule has the definition that its file names, and Keras's names and defaults for hyper-parameters.
  // There is also assign, for reserved buffers: row = gradient. kInvalid naming the nearest known optimizer,
  // hyper-parameter or schedule, or the value that is out of range.
  static std::unique_ptr<const UpdateRule> make(const UpdateRuleSpec& spec);
  ~UpdateRule();

  const std::vector<Slot>& slots() const { return slots_; }
  // The learning rate of the spec, or of its schedule at this step of the model (1 for the first apply).
  double learning_rate(uint64_t step) const;
  // Whether a row's elements cannot be changed apart from each other.
  bool needs_whole_rows() const;
  // Whether its slots never forget a gradient, so that its steps cannot be guessed without all earlier ones.
  bool remembers_all() const;
  // How gradients are clipped before they get here.
  const Clipping& clipping() const { return clipping_; }
  // The kernel of one step, for any number of rows: what the step's rows share (Adam's bias correction) is
  // computed here, once. Each element depends on its own row, slot and gradient elements alone, not on dim or
  // place (rowwise_adagrad and group_ftrl: on those of its row). The rule must outlive the kernel. The kernel
  // throws kInternal when slots[] does not have slot_floats(dim) floats.
  UpdateKernel kernel(const Step& step) const;
  GuardedKernel guarded_kernel(const Step& step) const;
  // One row: row[dim], slots[slot_floats(dim)], grad[dim].
  void apply(const Step& step, std::span<float> row, std::span<float> slots,
             std::span<const float> grad) const {
    kernel(step)(row, slots, grad);
  }

 private:
  UpdateRule(const UpdateFormula& rule, const UpdateRuleSpec& spec);

  std::unique_ptr<const UpdateFormula> rule_;
  std::map<std::string, double> params_;
  std::vector<Slot> slots_;
  Clipping clipping_;
  std::optional<Schedule> schedule_;
};

// The names that a user may choose: all but assign.
const std::vector<std::string>& optimizer_names();

// Floats of all slots of a row of dim floats.
size_t slot_floats(const UpdateRule& rule, size_t dim);
// First values of the slots, as Store::add_table takes them.
std::vector<float> slot_init(const UpdateRule& rule, uint32_t dim);

}  // namespace embers::storage
