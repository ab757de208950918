#pragma once

#include <string>
#include <vector>

#include "base/params.h"
#include "storage/update_rules/update_rule.h"

// What an update rule is made of. Each rule has a file of its own in this folder, with its formula above its
// kernel, and a line in all_update_formulas().
namespace embers::storage {

// How the hyper-parameter weight_decay acts on a row.
enum class WeightDecay : uint8_t {
  kNone,       // there is none
  kCoupled,    // L2: the gradient becomes grad + weight_decay * row, as torch.optim has it
  kDecoupled,  // row *= 1 - learning_rate * weight_decay before the step, as AdamW
};

struct UpdateFormula {
  std::string name;
  Params defaults;  // all hyper-parameters but the clipping ones, which every rule has
  WeightDecay weight_decay;
  std::vector<UpdateRule::Slot> (*slots)(const Params& params);
  // One step. It does not deal with weight_decay or clipping.
  UpdateKernel (*kernel)(const Params& params, const UpdateRule::Step& step);
  // The same step as a loop over rows, for rules where that pays off: it saves calls, and a copy and a check
  // of each row. May be empty.
  GuardedKernel (*guarded)(const Params& params, const UpdateRule::Step& step) = nullptr;
  bool needs_whole_rows = false;  // an element's step depends on the others of its row
  bool remembers_all = false;     // no gradient is ever forgotten by its slots
};

UpdateFormula sgd();
UpdateFormula adagrad();
UpdateFormula rmsprop();
UpdateFormula adadelta();
UpdateFormula adam();
UpdateFormula adamw();
UpdateFormula adamax();
UpdateFormula nadam();
UpdateFormula ftrl();
UpdateFormula rowwise_adagrad();
UpdateFormula group_ftrl();
UpdateFormula lion();
UpdateFormula assign();

// Floats of slots that a kernel expects beside a row of dim floats.
struct SlotFloats {
  size_t slots = 0;      // of dim floats each
  size_t whole_row = 0;  // of one float each
  size_t beside(size_t dim) const { return slots * dim + whole_row; }
};

// kInternal: the row belongs to a table with another rule.
[[noreturn]] void fail_shapes(size_t row, size_t slots, size_t grad);
inline void check_shapes(std::span<const float> row, std::span<const float> slots,
                         std::span<const float> grad, SlotFloats expected) {
  if (grad.size() != row.size() || slots.size() != expected.beside(row.size())) [[unlikely]]
    fail_shapes(row.size(), slots.size(), grad.size());
}

// A kernel from update(n, row, slots, grad). The pointers that it gets have been checked.
template <class Update>
UpdateKernel row_kernel(SlotFloats expected, Update update) {
  return [expected, update](std::span<float> row, std::span<float> slots, std::span<const float> grad) {
    check_shapes(row, slots, grad, expected);
    update(row.size(), row.data(), slots.data(), grad.data());
  };
}

// base^exponent by squaring: only multiplications, so the same on every machine.
double power(double base, uint64_t exponent);

}  // namespace embers::storage
