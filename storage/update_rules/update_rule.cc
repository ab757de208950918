#include "storage/update_rules/update_rule.h"

#include <algorithm>
#include <cmath>

#include "base/floats/copy_floats.h"
#include "base/floats/finite.h"
#include "base/params.h"
#include "base/suggest.h"
#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

const std::vector<UpdateFormula>& all_update_formulas() {
  static const std::vector<UpdateFormula> rules = {
      sgd(),   adagrad(), rmsprop(), adadelta(),        adam(),       adamw(),  adamax(),
      nadam(), ftrl(),    lion(),    rowwise_adagrad(), group_ftrl(), assign(),
  };
  return rules;
}

struct Range {
  double low, high;  // both inclusive
  const char* text;
};

// Range of a hyper-parameter, the same for all update rules. Most must also be in range as a float: a tiny
// epsilon would vanish and divide 0 by 0.
Range range_of(const std::string& name) {
  constexpr double kTiny = std::numeric_limits<float>::min(), kHuge = std::numeric_limits<float>::max();
  static const double kBelowOne = std::nextafter(1.0, 0.0);
  if (name == "learning_rate" || name == "epsilon")
    return {kTiny, kHuge, "above 0 and within the range of float"};
  if (name == "beta_1" || name == "beta_2" || name == "rho") return {0, kBelowOne, "at least 0 and below 1"};
  if (name == "momentum") return {0, 1, "from 0 to 1"};
  if (name == "nesterov" || name == "amsgrad" || name == "centered") return {0, 1, "true or false"};
  if (name == "learning_rate_power") return {-kHuge, 0, "at most 0"};
  return {0, kHuge, "at least 0"};
}

void check_range(const std::string& what, const std::string& name, double value) {
  const Range range = range_of(name);
  const bool flag = range.text == std::string("true or false");
  if (!(value >= range.low && value <= range.high) || (flag && value != 0 && value != 1))
    fail(ErrorCode::kInvalid, "{}: {} = {} must be {}", what, name, value, range.text);
}

// The formula's hyper-parameters and, except for assign, those of clipping.
Params all_defaults(const UpdateFormula& rule) {
  Params defaults = rule.defaults;
  if (!defaults.empty()) defaults.insert({{"clipvalue", 0}, {"clipnorm", 0}, {"global_clipnorm", 0}});
  return defaults;
}

double value_or_zero(const Params& params, const char* name) {
  const auto found = params.find(name);
  return found == params.end() ? 0 : found->second;
}

// The kernel on grad + decay * row.
UpdateKernel coupled(UpdateKernel update, float decay) {
  return [update = std::move(update), decay, sum = std::vector<float>()](
             std::span<float> row, std::span<float> slots, std::span<const float> grad) mutable {
    sum.assign(grad.begin(), grad.end());
    for (size_t i = 0; i < std::min(row.size(), grad.size()); ++i) sum[i] += decay * row[i];
    update(row, slots, sum);
  };
}

// The kernel on a row that is decayed first.
UpdateKernel decoupled(UpdateKernel update, float factor) {
  return [update = std::move(update), factor](std::span<float> row, std::span<float> slots,
                                              std::span<const float> grad) {
    for (float& x : row) x *= factor;
    update(row, slots, grad);
  };
}

}  // namespace

UpdateRule::UpdateRule(const UpdateFormula& rule, const UpdateRuleSpec& spec)
    : rule_(std::make_unique<UpdateFormula>(rule)) {
  const std::string what = fmt::format("optimizer '{}'", rule.name);
  params_ = with_defaults(what, all_defaults(rule), spec.params);
  for (const auto& [name, value] : params_) check_range(what, name, value);
  slots_ = rule.slots(params_);
  clipping_ = {value_or_zero(params_, "clipvalue"), value_or_zero(params_, "clipnorm"),
               value_or_zero(params_, "global_clipnorm")};
  if ((clipping_.value > 0) + (clipping_.norm > 0) + (clipping_.global_norm > 0) > 1)
    fail(ErrorCode::kInvalid, "{}: only one of clipvalue, clipnorm and global_clipnorm can be set", what);
  if (spec.schedule.name.empty()) return;
  const bool has_own =
      spec.schedule.params.contains("initial_learning_rate") || !spec.schedule.values.empty();
  if (has_own && spec.params.contains("learning_rate"))
    fail(ErrorCode::kInvalid,
         "{}: give learning_rate, or the schedule's initial_learning_rate or values, not both", what);
  schedule_ = Schedule::make(spec.schedule, value_or_zero(params_, "learning_rate"));
}

UpdateRule::~UpdateRule() = default;

std::unique_ptr<const UpdateRule> UpdateRule::make(const UpdateRuleSpec& spec) {
  const auto& all = all_update_formulas();
  const auto rule =
      std::find_if(all.begin(), all.end(), [&](const UpdateFormula& r) { return r.name == spec.name; });
  if (rule == all.end())
    fail(ErrorCode::kInvalid, "unknown optimizer '{}'{}", spec.name,
         suggestion(spec.name, optimizer_names()));
  return std::unique_ptr<const UpdateRule>(new UpdateRule(*rule, spec));
}

double UpdateRule::learning_rate(uint64_t step) const {
  return schedule_ ? schedule_->at(step - 1) : value_or_zero(params_, "learning_rate");
}

bool UpdateRule::needs_whole_rows() const { return rule_->needs_whole_rows; }

bool UpdateRule::remembers_all() const {
  return rule_->remembers_all || value_or_zero(params_, "amsgrad") != 0;
}

UpdateKernel UpdateRule::kernel(const Step& step) const {
  UpdateKernel update = rule_->kernel(params_, step);
  const double decay = value_or_zero(params_, "weight_decay");
  if (decay == 0) return update;
  if (rule_->weight_decay == WeightDecay::kCoupled)
    return coupled(std::move(update), static_cast<float>(decay));
  return decoupled(std::move(update), static_cast<float>(1 - step.learning_rate * decay));
}

GuardedKernel UpdateRule::guarded_kernel(const Step& step) const {
  if (rule_->guarded != nullptr && value_or_zero(params_, "weight_decay") == 0)
    if (GuardedKernel guarded = rule_->guarded(params_, step)) return guarded;
  return [update = kernel(step)](const RowsToUpdate& rows, size_t begin, float* before) {
    for (size_t i = begin; i < rows.size(); ++i) {
      prefetch_ahead(rows, i);
      copy_floats(before, rows.rows[i], rows.dim + rows.slot_floats);
      update(rows.row(i), rows.slots(i), rows.grad(i));
      if (!all_finite(rows.row(i)) || !all_finite(rows.slots(i))) return i;
    }
    return rows.size();
  };
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const UpdateFormula& rule : all_update_formulas())
      if (rule.name != "assign") names.push_back(rule.name);
    return names;
  }();
  return names;
}

size_t slot_floats(const UpdateRule& rule, size_t dim) {
  size_t floats = 0;
  for (const UpdateRule::Slot& slot : rule.slots()) floats += slot.width(dim);
  return floats;
}

std::vector<float> slot_init(const UpdateRule& rule, uint32_t dim) {
  std::vector<float> values;
  for (const UpdateRule::Slot& slot : rule.slots())
    values.insert(values.end(), slot.width(dim), slot.initial);
  return values;
}

}  // namespace embers::storage
