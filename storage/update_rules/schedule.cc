#include "storage/update_rules/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/errors.h"
#include "base/params.h"
#include "base/suggest.h"

namespace embers::storage {
namespace {

using Formula = std::function<double(double step)>;

constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();  // a parameter without a default

Formula constant(const Params&, double initial) {
  return [=](double) { return initial; };
}

// How many decays have passed: with staircase, only whole ones.
Formula decays(const Params& p) {
  return [steps = p.at("decay_steps"), staircase = p.at("staircase") != 0](double step) {
    return staircase ? std::floor(step / steps) : step / steps;
  };
}

Formula exponential(const Params& p, double initial) {
  return [=, passed = decays(p), rate = p.at("decay_rate")](double step) {
    return initial * std::pow(rate, passed(step));
  };
}

Formula inverse_time(const Params& p, double initial) {
  return [=, passed = decays(p), rate = p.at("decay_rate")](double step) {
    return initial / (1 + rate * passed(step));
  };
}

Formula polynomial(const Params& p, double initial) {
  return [=, steps = p.at("decay_steps"), end = p.at("end_learning_rate"), power = p.at("power"),
          cycle = p.at("cycle") != 0](double step) {
    const double period = cycle ? steps * std::max(1.0, std::ceil(step / steps)) : steps;
    return (initial - end) * std::pow(1 - std::min(step, period) / period, power) + end;
  };
}

// Half a cosine from 1 down to alpha.
double half_cosine(double completed, double alpha, double height = 1) {
  return (1 - alpha) * 0.5 * height * (1 + std::cos(std::numbers::pi * completed)) + alpha;
}

Formula cosine(const Params& p, double initial) {
  return [=, steps = p.at("decay_steps"), alpha = p.at("alpha")](double step) {
    return initial * half_cosine(std::min(step, steps) / steps, alpha);
  };
}

Formula cosine_restarts(const Params& p, double initial) {
  return [=, first = p.at("first_decay_steps"), t_mul = p.at("t_mul"), m_mul = p.at("m_mul"),
          alpha = p.at("alpha")](double step) {
    const auto begin = [=](double restart) {  // its step
      return t_mul == 1 ? first * restart : first * (std::pow(t_mul, restart) - 1) / (t_mul - 1);
    };
    double restarts = t_mul == 1 ? std::floor(step / first)
                                 : std::floor(std::log1p(step / first * (t_mul - 1)) / std::log(t_mul));
    if (begin(restarts) > step) --restarts;       // the logarithm was rounded up, or
    if (begin(restarts + 1) <= step) ++restarts;  // down, over a whole number
    const double completed = (step - begin(restarts)) / (first * std::pow(t_mul, restarts));
    return initial * half_cosine(completed, alpha, std::pow(m_mul, restarts));
  };
}

struct Known {
  const char* name;
  const char* keras;  // the class
  Params defaults;    // besides initial_learning_rate and the warm-up
  Formula (*make)(const Params&, double initial);
};

const std::vector<Known>& known_schedules() {
  static const std::vector<Known> known = {
      {"constant", "Constant", {}, constant},
      {"exponential",
       "ExponentialDecay",
       {{"decay_steps", kRequired}, {"decay_rate", kRequired}, {"staircase", 0}},
       exponential},
      {"inverse_time",
       "InverseTimeDecay",
       {{"decay_steps", kRequired}, {"decay_rate", kRequired}, {"staircase", 0}},
       inverse_time},
      {"polynomial",
       "PolynomialDecay",
       {{"decay_steps", kRequired}, {"end_learning_rate", 0.0001}, {"power", 1}, {"cycle", 0}},
       polynomial},
      {"cosine", "CosineDecay", {{"decay_steps", kRequired}, {"alpha", 0}}, cosine},
      {"cosine_restarts",
       "CosineDecayRestarts",
       {{"first_decay_steps", kRequired}, {"t_mul", 2}, {"m_mul", 1}, {"alpha", 0}},
       cosine_restarts},
      {"warmup", "WarmUp", {}, constant},
  };
  return known;
}

// A name regardless of its spelling: "CosineDecay" and "cosine_decay" are the same.
std::string plain(const std::string& name) {
  std::string letters;
  for (const char c : name)
    if (c != '_' && c != '-')
      letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  return letters;
}

bool is_named(const std::string& name, const char* ours, const char* keras) {
  return plain(name) == plain(ours) || plain(name) == plain(keras);
}

void check_range(const std::string& what, const std::string& name, double value) {
  const auto one_of = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (std::isnan(value)) fail(ErrorCode::kInvalid, "{} needs '{}'", what, name);
  if (one_of({"decay_steps", "first_decay_steps", "warmup_steps"}) && value <= 0)
    fail(ErrorCode::kInvalid, "{}: {} = {} must be above 0", what, name, value);
  if (name == "t_mul" && value < 1)
    fail(ErrorCode::kInvalid, "{}: {} = {} must be at least 1", what, name, value);
  if (one_of({"staircase", "cycle"}) && value != 0 && value != 1)
    fail(ErrorCode::kInvalid, "{}: {} = {} must be true or false", what, name, value);
  if (value < 0) fail(ErrorCode::kInvalid, "{}: {} = {} must be at least 0", what, name, value);
}

Formula piecewise(const std::string& what, const ScheduleSpec& spec) {
  const auto& [boundaries, values] = std::tie(spec.boundaries, spec.values);
  if (!spec.params.empty())
    fail(ErrorCode::kInvalid, "{} has no parameter '{}'{}", what, spec.params.begin()->first,
         suggestion(spec.params.begin()->first, std::vector<std::string>{"boundaries", "values"}));
  if (values.size() != boundaries.size() + 1)
    fail(ErrorCode::kInvalid, "{} needs one more value than boundaries, not {} values for {} boundaries",
         what, values.size(), boundaries.size());
  if (std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) != boundaries.end())
    fail(ErrorCode::kInvalid, "{}: boundaries must be in ascending order", what);
  for (const double value : values) check_range(what, "values", value);
  return [boundaries, values](double step) {
    return values[std::lower_bound(boundaries.begin(), boundaries.end(), step) - boundaries.begin()];
  };
}

Formula with_warmup(const std::string& what, const Known& known, Params params, bool warm) {
  for (const auto& [name, value] : params)
    if (warm || !name.starts_with("warmup_")) check_range(what, name, value);
  const double initial = params.at("initial_learning_rate");
  if (!warm) return known.make(params, initial);
  return [initial, target = params.at("warmup_target"), steps = params.at("warmup_steps"),
          after = known.make(params, params.at("warmup_target"))](double step) {
    return step < steps ? (target - initial) * step / steps + initial : after(step - steps);
  };
}

}  // namespace

Schedule Schedule::make(const ScheduleSpec& spec, std::optional<double> learning_rate) {
  const std::string what = fmt::format("schedule '{}'", spec.name);
  if (is_named(spec.name, "piecewise", "PiecewiseConstantDecay")) return Schedule(piecewise(what, spec));
  const auto& all = known_schedules();
  const auto known = std::find_if(all.begin(), all.end(),
                                  [&](const Known& k) { return is_named(spec.name, k.name, k.keras); });
  if (known == all.end())
    fail(ErrorCode::kInvalid, "unknown schedule '{}'{}", spec.name, suggestion(spec.name, schedule_names()));
  if (!spec.boundaries.empty() || !spec.values.empty())
    fail(ErrorCode::kInvalid, "{} takes neither boundaries nor values; only piecewise does", what);
  Params defaults = known->defaults;
  defaults["initial_learning_rate"] = learning_rate.value_or(kRequired);
  defaults["warmup_steps"] = defaults["warmup_target"] = kRequired;
  const bool warm = known->name == std::string("warmup") || spec.params.contains("warmup_steps") ||
                    spec.params.contains("warmup_target");
  return Schedule(with_warmup(what, *known, with_defaults(what, std::move(defaults), spec.params), warm));
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> names;
    for (const Known& known : known_schedules()) names.emplace_back(known.name);
    names.emplace_back("piecewise");
    return names;
  }();
  return names;
}

}  // namespace embers::storage
