#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Between the JSON of `embers op` and arrays. Every error is kInvalid and begins with the place in the case.
namespace embers::op {

using Json = nlohmann::json;

inline constexpr double kMostNumbers = 1 << 24;  // of a result, which is to be written as text

// A value of the case, null when it is absent; the case must be an object.
const Json& at(const Json& the_case, const char* key);
inline bool given(const Json& the_case, const char* key) { return !at(the_case, key).is_null(); }

// Numbers may be spelled "nan", "inf" and "-inf", and are written that way.
float number(const Json& value, const std::string& place);
Json number(float value);
int64_t integer(const Json& value, const std::string& place);
const std::string& text(const Json& value, const std::string& place);
bool flag(const Json& the_case, const char* key);  // absent and null: false

// Nested lists, flattened. A list of lists must be rectangular; a list without elements ends the shape.
struct Flat {
  std::vector<int64_t> shape;
  std::vector<const Json*> values;
};
Flat flatten(const Json& value, const std::string& place);
std::vector<float> numbers(const Flat& flat, const std::string& place);
std::vector<int64_t> integers(const Flat& flat, const std::string& place);
std::string show(std::span<const int64_t> shape);  // "[2, 3]"

// The reverse: values[product of shape] as lists nested shape.size() deep.
Json nested(std::span<const float> values, std::span<const int64_t> shape);

}  // namespace embers::op
