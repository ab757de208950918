#include "storage/rows/constraint.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "base/params.h"
#include "base/suggest.h"

namespace embers::storage {
namespace {

constexpr double kEpsilon = 1e-7;  // keras.backend.epsilon()

double norm_of(std::span<const float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * x;
  return std::sqrt(squares);
}

void scale_to(double desired, double norm, std::span<float> row) {
  const auto factor = static_cast<float>(desired / (kEpsilon + norm));
  for (float& x : row) x *= factor;
}

class NonNegative : public Constraint {
 public:
  bool needs_whole_rows() const override { return false; }
  void apply(std::span<float> row) const override {
    for (float& x : row) x = x < 0 ? 0.0f : x;
  }
};

class UnitNorm : public Constraint {
 public:
  void apply(std::span<float> row) const override { scale_to(1, norm_of(row), row); }
};

// max_norm is the same with min_value 0 and rate 1.
class MinMaxNorm : public Constraint {
 public:
  MinMaxNorm(double low, double high, double rate) : low_(low), high_(high), rate_(rate) {}
  void apply(std::span<float> row) const override {
    const double norm = norm_of(row);
    scale_to(rate_ * std::clamp(norm, low_, high_) + (1 - rate_) * norm, norm, row);
  }

 private:
  const double low_, high_, rate_;
};

// torch.embedding_renorm_.
class Renorm : public Constraint {
 public:
  Renorm(double max_norm, double norm_type) : max_norm_(max_norm), norm_type_(norm_type) {}
  void before(std::span<float> row) const override {
    const double norm = norm_type_ == 2 ? norm_of(row) : norm_of_type(row);
    if (norm > max_norm_) scale_to(max_norm_, norm, row);
  }

 private:
  double norm_of_type(std::span<const float> row) const {
    double sum = 0;
    for (const float x : row) sum += std::pow(std::abs(double{x}), norm_type_);
    return std::pow(sum, 1 / norm_type_);
  }

  const double max_norm_, norm_type_;
};

using Made = std::unique_ptr<const Constraint>;

struct Known {
  const char* name;
  Params defaults;  // Keras's, and torch's
  Made (*make)(const Params&);
};

Made make_min_max_norm(const Params& p) {
  return std::make_unique<MinMaxNorm>(p.at("min_value"), p.at("max_value"), p.at("rate"));
}

const std::vector<Known>& known_constraints() {
  static const std::vector<Known> known = {
      {"max_norm",
       {{"max_value", 2}},
       [](const Params& p) -> Made { return std::make_unique<MinMaxNorm>(0, p.at("max_value"), 1); }},
      {"non_neg", {}, [](const Params&) -> Made { return std::make_unique<NonNegative>(); }},
      {"unit_norm", {}, [](const Params&) -> Made { return std::make_unique<UnitNorm>(); }},
      {"renorm",
       {{"max_norm", 1}, {"norm_type", 2}},
       [](const Params& p) -> Made { return std::make_unique<Renorm>(p.at("max_norm"), p.at("norm_type")); }},
      {"min_max_norm", {{"min_value", 0}, {"max_value", 1}, {"rate", 1}}, make_min_max_norm},
  };
  return known;
}

void check_range(const std::string& what, const Params& p) {
  const double low = p.contains("min_value") ? p.at("min_value") : 0;
  if (p.contains("max_value") && !(low >= 0 && p.at("max_value") >= low))
    fail(ErrorCode::kInvalid, "{}: 0 <= min_value <= max_value must hold, but they are {} and {}", what, low,
         p.at("max_value"));
  for (const char* const name : {"max_norm", "norm_type"})
    if (p.contains(name) && !(p.at(name) > 0))
      fail(ErrorCode::kInvalid, "{}: {} = {} must be above 0", what, name, p.at(name));
  if (p.contains("rate") && !(p.at("rate") >= 0 && p.at("rate") <= 1))
    fail(ErrorCode::kInvalid, "{}: rate = {} must be from 0 to 1", what, p.at("rate"));
}

}  // namespace

std::unique_ptr<const Constraint> Constraint::make(const ConstraintSpec& spec) {
  if (spec.name.empty()) return nullptr;
  const auto& all = known_constraints();
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const Known& k) { return k.name == spec.name; });
  if (known == all.end())
    fail(ErrorCode::kInvalid, "unknown constraint '{}'{}", spec.name,
         suggestion(spec.name, constraint_names()));
  const std::string what = fmt::format("constraint '{}'", spec.name);
  const Params params = with_defaults(what, known->defaults, spec.params);
  check_range(what, params);
  return known->make(params);
}

const std::vector<std::string>& constraint_names() {
  static const std::vector<std::string> names = {"max_norm", "non_neg", "unit_norm", "min_max_norm"};
  return names;
}

}  // namespace embers::storage
