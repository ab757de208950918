#include "apps/op/op_specs.h"

#include <cmath>

#include "base/errors.h"

namespace embers::op {
namespace {

const std::string& name_of(const Json& the_case) {
  if (!given(the_case, "name")) fail(ErrorCode::kInvalid, "the case has no \"name\"");
  return text(at(the_case, "name"), "name");
}

const Json& params_of(const Json& the_case) {
  static const Json none = Json::object();
  const Json& params = at(the_case, "params");
  if (params.is_null()) return none;
  if (!params.is_object())
    fail(ErrorCode::kInvalid, "params must be an object like {{\"learning_rate\": 0.1}}");
  return params;
}

double parameter(const Json& value, const std::string& place) {
  return value.is_boolean() ? static_cast<double>(value.get<bool>()) : exact_number(value, place);
}

std::vector<double> doubles(const Json& list, const std::string& place) {
  if (!list.is_array()) fail(ErrorCode::kInvalid, "{} must be a list of numbers", place);
  std::vector<double> values;
  for (const Json& value : list) values.push_back(exact_number(value, place));
  return values;
}

std::map<std::string, double> numbers_of(const Json& params) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : params.items())
    if (!value.is_null()) numbers[name] = parameter(value, "params." + name);
  return numbers;
}

}  // namespace

double exact_number(const Json& value, const std::string& place) {
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    fail(ErrorCode::kInvalid, "{} must be a finite number, not {}", place, value.dump());
  return value.get<double>();
}

InitializerSpec initializer_spec(const Json& the_case) {
  return {name_of(the_case), numbers_of(params_of(the_case))};
}

ScheduleSpec schedule_spec(const Json& the_case) {
  ScheduleSpec spec;
  spec.name = name_of(the_case);
  Json params = params_of(the_case);
  for (const auto& [key, list] :
       {std::pair("boundaries", &spec.boundaries), std::pair("values", &spec.values)}) {
    if (given(params, key)) *list = doubles(params.at(key), std::string("params.") + key);
    params.erase(key);
  }
  spec.params = numbers_of(params);
  return spec;
}

UpdateRuleSpec optimizer_spec(const Json& the_case) {
  UpdateRuleSpec spec;
  spec.name = name_of(the_case);
  spec.params = numbers_of(params_of(the_case));
  if (given(the_case, "schedule"))
    at_place("schedule", [&] { spec.schedule = schedule_spec(at(the_case, "schedule")); });
  return spec;
}

Keys keys_from(const std::vector<const Json*>& values, const std::string& place) {
  if (values.empty() || !values.front()->is_string()) {
    std::vector<int64_t> ints;
    for (const Json* value : values) ints.push_back(integer(*value, place));
    return Keys(ints);
  }
  std::vector<std::string> keys;
  for (const Json* value : values) keys.push_back(text(*value, place));
  return Keys(keys);
}

std::string row_name(KeysView keys, size_t i) {
  return keys.kind == KeyKind::kInt64 ? std::to_string(keys.ints[i]) : std::string(keys.bytes_at(i));
}

}  // namespace embers::op
