#include "storage/optimizer.h"

#include <algorithm>
#include <cmath>

#include "schema/suggest.h"
#include "storage/params.h"

namespace embers::storage {
namespace {

void check_shapes(std::span<const float> row, std::span<const float> slots, std::span<const float> grad,
                  size_t slots_a_row) {
  if (grad.size() != row.size() || slots.size() != slots_a_row * row.size())
    fail(ErrorCode::kInternal,
         "a row of {} floats with {} floats of slots got a gradient of {} by an optimizer of {} slots",
         row.size(), slots.size(), grad.size(), slots_a_row);
}

// base^exponent by squaring: only multiplications, so the same on every machine.
double power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

// row -= rate * grad
void sgd_row(size_t n, float* __restrict row, const float* __restrict grad, float rate) {
  for (size_t i = 0; i < n; ++i) row[i] -= rate * grad[i];
}

// sum += grad^2;  row -= rate * grad / (sqrt(sum) + epsilon)
void adagrad_row(size_t n, float* __restrict row, float* __restrict sum, const float* __restrict grad,
                 float rate, float epsilon) {
  for (size_t i = 0; i < n; ++i) {
    sum[i] += grad[i] * grad[i];
    row[i] -= rate * grad[i] / (std::sqrt(sum[i]) + epsilon);
  }
}

// m += (grad - m)(1 - beta_1);  v += (grad^2 - v)(1 - beta_2);  row -= rate * m / (sqrt(v) + epsilon)
// where rate has the bias correction in it.
struct AdamFactors {
  float one_minus_beta_1, one_minus_beta_2, epsilon, rate;
};
void adam_row(size_t n, float* __restrict row, float* __restrict m, float* __restrict v,
              const float* __restrict grad, AdamFactors f) {
  for (size_t i = 0; i < n; ++i) {
    m[i] += (grad[i] - m[i]) * f.one_minus_beta_1;
    v[i] += (grad[i] * grad[i] - v[i]) * f.one_minus_beta_2;
    row[i] -= f.rate * m[i] / (std::sqrt(v[i]) + f.epsilon);
  }
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const Params& p) : learning_rate_(p.at("learning_rate")) {}
  const std::vector<Slot>& slots() const override { return slots_; }
  double learning_rate() const override { return learning_rate_; }
  UpdateKernel kernel(const Step& step) const override {
    return [rate = static_cast<float>(step.learning_rate)](auto row, auto slots, auto grad) {
      check_shapes(row, slots, grad, 0);
      sgd_row(row.size(), row.data(), grad.data(), rate);
    };
  }

 private:
  std::vector<Slot> slots_;
  double learning_rate_;
};

// torch.optim.Adagrad without lr_decay and weight_decay.
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const Params& p)
      : slots_{{"accumulator", static_cast<float>(p.at("initial_accumulator_value"))}},
        learning_rate_(p.at("learning_rate")),
        epsilon_(static_cast<float>(p.at("epsilon"))) {}
  const std::vector<Slot>& slots() const override { return slots_; }
  double learning_rate() const override { return learning_rate_; }
  UpdateKernel kernel(const Step& step) const override {
    return
        [rate = static_cast<float>(step.learning_rate), epsilon = epsilon_](auto row, auto slots, auto grad) {
          check_shapes(row, slots, grad, 1);
          adagrad_row(row.size(), row.data(), slots.data(), grad.data(), rate, epsilon);
        };
  }

 private:
  std::vector<Slot> slots_;
  double learning_rate_;
  float epsilon_;
};

// torch.optim.SparseAdam, with the model's step for every row.
class Adam final : public Optimizer {
 public:
  explicit Adam(const Params& p)
      : learning_rate_(p.at("learning_rate")),
        beta_1_(p.at("beta_1")),
        beta_2_(p.at("beta_2")),
        epsilon_(p.at("epsilon")) {}
  const std::vector<Slot>& slots() const override { return slots_; }
  double learning_rate() const override { return learning_rate_; }
  UpdateKernel kernel(const Step& step) const override {
    return [factors = factors(step)](auto row, auto slots, auto grad) {
      check_shapes(row, slots, grad, 2);
      adam_row(row.size(), row.data(), slots.data(), slots.data() + row.size(), grad.data(), factors);
    };
  }

 private:
  AdamFactors factors(const Step& step) const {
    const double correction = std::sqrt(1 - power(beta_2_, step.step)) / (1 - power(beta_1_, step.step));
    return {static_cast<float>(1 - beta_1_), static_cast<float>(1 - beta_2_), static_cast<float>(epsilon_),
            static_cast<float>(step.learning_rate * correction)};
  }

  std::vector<Slot> slots_{{"m", 0}, {"v", 0}};
  double learning_rate_, beta_1_, beta_2_, epsilon_;
};

// row = grad: how buffers, whose "gradient" is their new value, go through the same path as everything else.
class Assign final : public Optimizer {
 public:
  explicit Assign(const Params&) {}
  const std::vector<Slot>& slots() const override { return slots_; }
  double learning_rate() const override { return 1; }
  UpdateKernel kernel(const Step&) const override {
    return [](auto row, auto slots, auto grad) {
      check_shapes(row, slots, grad, 0);
      std::copy(grad.begin(), grad.end(), row.begin());
    };
  }

 private:
  std::vector<Slot> slots_;
};

using Made = std::unique_ptr<const Optimizer>;

template <class Kind>
Made make_kind(const Params& params) {
  return std::make_unique<Kind>(params);
}

struct Known {
  const char* name;
  Params defaults;  // Keras's
  Made (*make)(const Params&);
};

const std::vector<Known>& known_optimizers() {
  static const std::vector<Known> known = {
      {"sgd", {{"learning_rate", 0.01}}, make_kind<Sgd>},
      {"adagrad",
       {{"learning_rate", 0.01}, {"initial_accumulator_value", 0.1}, {"epsilon", 1e-7}},
       make_kind<Adagrad>},
      {"adam",
       {{"learning_rate", 0.001}, {"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}},
       make_kind<Adam>},
      {"assign", {}, make_kind<Assign>},
  };
  return known;
}

// A row is float32, so a value must also be in range as one: a tiny epsilon would vanish and divide 0 by 0.
void check_range(const std::string& what, const std::string& name, double value) {
  const auto as_float = static_cast<float>(value);
  const bool beta = name == "beta_1" || name == "beta_2";
  if (beta && !(value >= 0 && value < 1))
    fail(ErrorCode::kInvalid, "{}: {} = {} must be at least 0 and below 1", what, name, value);
  if (name == "initial_accumulator_value" && !(value >= 0 && std::isfinite(as_float)))
    fail(ErrorCode::kInvalid, "{}: {} = {} must be at least 0", what, name, value);
  if ((name == "learning_rate" || name == "epsilon") && !(as_float > 0 && std::isfinite(as_float)))
    fail(ErrorCode::kInvalid, "{}: {} = {} must be above 0 and within the range of float", what, name, value);
}

}  // namespace

std::unique_ptr<const Optimizer> Optimizer::make(const OptimizerSpec& spec) {
  const auto& all = known_optimizers();
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const Known& k) { return k.name == spec.name; });
  if (known == all.end())
    fail(ErrorCode::kInvalid, "unknown optimizer '{}'{}", spec.name,
         suggestion(spec.name, optimizer_names()));
  const std::string what = fmt::format("optimizer '{}'", spec.name);
  const Params params = with_defaults(what, known->defaults, spec.params);
  for (const auto& [name, value] : params) check_range(what, name, value);
  return known->make(params);
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"sgd", "adagrad", "adam"};
  return names;
}

std::vector<float> slot_init(const Optimizer& optimizer, uint32_t dim) {
  std::vector<float> values;
  for (const Optimizer::Slot& slot : optimizer.slots()) values.insert(values.end(), dim, slot.initial);
  return values;
}

}  // namespace embers::storage
