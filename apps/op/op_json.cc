#include "apps/op/op_json.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/errors.h"

namespace embers::op {
namespace {

[[noreturn]] void fail_type(const Json& value, const std::string& place, const char* wanted) {
  std::string shown = value.dump();
  if (shown.size() > 40) shown = shown.substr(0, 40) + "...";
  fail(ErrorCode::kInvalid, "{} must be {}, not {}", place, wanted, shown);
}

void flatten(const Json& value, const std::string& place, size_t depth, Flat& flat) {
  if (!value.is_array()) {
    if (depth != flat.shape.size())
      fail(ErrorCode::kInvalid, "{} must be lists of equal depth: {} is mixed with lists", place,
           value.dump());
    return flat.values.push_back(&value);
  }
  const auto size = static_cast<int64_t>(value.size());
  if (depth == flat.shape.size()) {
    if (!flat.values.empty())
      fail(ErrorCode::kInvalid, "{} must be lists of equal depth: a list is mixed with values", place);
    flat.shape.push_back(size);
  }
  if (flat.shape[depth] != size)
    fail(ErrorCode::kInvalid, "{} must be lists of equal length: one has {} elements, another {}", place,
         flat.shape[depth], size);
  for (const Json& element : value) flatten(element, place, depth + 1, flat);
}

}  // namespace

const Json& at(const Json& the_case, const char* key) {
  static const Json absent;
  if (!the_case.is_object()) fail(ErrorCode::kInvalid, "a case must be a JSON object like {{\"op\": ...}}");
  const auto found = the_case.find(key);
  return found == the_case.end() ? absent : *found;
}

float number(const Json& value, const std::string& place) {
  if (value.is_number()) return static_cast<float>(value.get<double>());
  if (value == "nan") return NAN;
  if (value == "inf") return INFINITY;
  if (value == "-inf") return -INFINITY;
  fail_type(value, place, "a number, \"nan\", \"inf\" or \"-inf\"");
}

Json number(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return std::stod(fmt::format("{}", value));  // 0.1 rather than 0.10000000149011612
}

int64_t integer(const Json& value, const std::string& place) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX});
  if (!fits) fail_type(value, place, "an integer");
  return value.get<int64_t>();
}

const std::string& text(const Json& value, const std::string& place) {
  if (!value.is_string()) fail_type(value, place, "a string");
  return value.get_ref<const std::string&>();
}

bool flag(const Json& the_case, const char* key) {
  const Json& value = at(the_case, key);
  if (value.is_null()) return false;
  if (!value.is_boolean()) fail_type(value, key, "true or false");
  return value.get<bool>();
}

Flat flatten(const Json& value, const std::string& place) {
  Flat flat;
  flatten(value, place, 0, flat);
  return flat;
}

std::vector<float> numbers(const Flat& flat, const std::string& place) {
  std::vector<float> result;
  for (const Json* value : flat.values) result.push_back(number(*value, place));
  return result;
}

std::vector<int64_t> integers(const Flat& flat, const std::string& place) {
  std::vector<int64_t> result;
  for (const Json* value : flat.values) result.push_back(integer(*value, place));
  return result;
}

std::string show(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Json nested(std::span<const float> values, std::span<const int64_t> shape) {
  if (shape.empty()) return number(values.front());
  Json list = Json::array();
  const size_t each = shape.front() == 0 ? 0 : values.size() / static_cast<size_t>(shape.front());
  for (int64_t i = 0; i < shape.front(); ++i)
    list.push_back(nested(values.subspan(static_cast<size_t>(i) * each, each), shape.subspan(1)));
  return list;
}

}  // namespace embers::op
