#include "apps/plan/spec_text.h"

#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace embers::plan {
namespace {

// With a point or an exponent: a whole number of a job file is an integer, which need not fit.
std::string number(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string list(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(number(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

template <class Spec>
std::vector<std::string> parts(const Spec& spec) {
  std::vector<std::string> parts{"name = " + toml(spec.name)};
  for (const auto& [name, value] : spec.params)
    parts.push_back(fmt::format(
        "{} = {}", name,
        value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value) : number(value)));
  return parts;
}

std::string table(const std::vector<std::string>& parts) {
  return fmt::format("{{ {} }}", fmt::join(parts, ", "));
}

}  // namespace

std::string toml(const std::string& text) { return nlohmann::json(text).dump(); }

std::string toml(const ConstraintSpec& constraint) {
  return constraint.name.empty() ? "" : table(parts(constraint));
}

std::string toml(const UpdateRuleSpec& rule) {
  std::vector<std::string> all = parts(rule);
  if (!rule.schedule.name.empty()) {
    std::vector<std::string> schedule = parts(rule.schedule);
    if (!rule.schedule.boundaries.empty())
      schedule.push_back("boundaries = " + list(rule.schedule.boundaries));
    if (!rule.schedule.values.empty()) schedule.push_back("values = " + list(rule.schedule.values));
    all.push_back("schedule = " + table(schedule));
  }
  return table(all);
}

}  // namespace embers::plan
