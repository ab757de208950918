#include "job/document/section.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "base/suggest.h"

namespace embers::job {

Section::Section(const toml::table& table, std::string title, std::string path, KnownKeys* known_keys)
    : table_(table), title_(std::move(title)), path_(std::move(path)), known_keys_(known_keys) {}

Section Section::below(const toml::table& table, std::string title, std::string_view name) const {
  return {table, std::move(title), fmt::format("{}.{}", path_, name), known_keys_};
}

bool Section::known(std::string_view key) const {
  return std::find(known_.begin(), known_.end(), key) != known_.end();
}

const toml::node* Section::find(std::string_view key) {
  if (!known(key)) known_.emplace_back(key);
  if (known_keys_ != nullptr) {
    auto& noted = (*known_keys_)[path_];
    if (std::find(noted.begin(), noted.end(), key) == noted.end()) noted.emplace_back(key);
  }
  return table_.get(key);
}

void Section::fail_at(std::string_view key, const std::string& problem) const {
  const auto it = table_.find(key);
  // The value's place: a key keeps its place in the file when an override gives it a new value.
  const toml::source_region& source = it != table_.end() ? it->second.source() : table_.source();
  fail(ErrorCode::kInvalid, "{}: {} {}", where(source), title_, problem);
}

void Section::read(std::string_view key, std::string& value) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  if (!node->is_string()) fail_at(key, fmt::format("'{}' must be a string in quotes", key));
  value = node->as_string()->get();
}

void Section::read(std::string_view key, bool& value) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  if (!node->is_boolean()) fail_at(key, fmt::format("'{}' must be true or false", key));
  value = node->as_boolean()->get();
}

void Section::read(std::string_view key, std::vector<std::string>& value) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  value.clear();
  if (node->is_string()) {
    value.push_back(node->as_string()->get());
    return;
  }
  const toml::array* const list = node->as_array();
  if (list == nullptr) fail_at(key, fmt::format("'{}' must be a string or a list of strings", key));
  for (const toml::node& item : *list) {
    if (!item.is_string()) fail_at(key, fmt::format("'{}' must be a list of strings", key));
    value.push_back(item.as_string()->get());
  }
}

void Section::read(std::string_view key, double& value) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const auto number = node->is_number() ? node->value<double>() : std::nullopt;
  if (!number || !std::isfinite(*number)) fail_at(key, fmt::format("'{}' must be a finite number", key));
  value = *number;
}

void Section::read(std::string_view key, std::vector<double>& value) {
  const toml::node* const node = find(key);
  if (node == nullptr) return;
  const toml::array* const list = node->as_array();
  if (list == nullptr) fail_at(key, fmt::format("'{}' must be a list of numbers", key));
  value.clear();
  for (const toml::node& item : *list) {
    const auto number = item.is_number() ? item.value<double>() : std::nullopt;
    if (!number || !std::isfinite(*number))
      fail_at(key, fmt::format("'{}' must be a list of finite numbers", key));
    value.push_back(*number);
  }
}

void Section::read_positive(std::string_view key, double& value) {
  read(key, value);
  if (has(key) && value <= 0) fail_at(key, fmt::format("'{}' must be greater than 0", key));
}

int64_t Section::integer(std::string_view key, int64_t otherwise, int64_t low, int64_t high) {
  const toml::node* const node = find(key);
  if (node == nullptr) return otherwise;
  if (!node->is_integer()) fail_at(key, fmt::format("'{}' must be a whole number", key));
  const int64_t value = node->as_integer()->get();
  if (value < low || value > high) {
    fail_at(key, fmt::format("'{}' is {} but must be from {} to {}", key, value, low, high));
  }
  return value;
}

int Section::choice(std::string_view key, const std::vector<std::string>& names) {
  if (find(key) == nullptr) return -1;
  std::string text;
  read(key, text);
  const auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) {
    fail_at(key, fmt::format("'{}' cannot be '{}'{}", key, text, suggestion(text, names)));
  }
  return static_cast<int>(it - names.begin());
}

std::map<std::string, double> Section::read_params() {
  std::map<std::string, double> params;
  for (const auto& [key, node] : in_file_order(table_)) {
    const std::string name(key->str());
    if (known(name)) continue;
    if (node->is_boolean()) {
      known_.push_back(name);
      params[name] = node->as_boolean()->get() ? 1 : 0;
    } else {
      read(name, params[name]);
    }
  }
  return params;
}

void Section::done() const {
  for (const auto& [key, node] : in_file_order(table_)) {
    const std::string_view name = key->str();
    if (known(name)) continue;
    fail(ErrorCode::kInvalid, "{}: unknown key '{}' in {}{}", where(key->source()), name, title_,
         suggestion(name, known_));
  }
}

const toml::table& as_section(const toml::node& node, const std::string& title) {
  if (const toml::table* const table = node.as_table()) return *table;
  fail(ErrorCode::kInvalid, "{}: {} must be a section", where(node.source()), title);
}

std::string text_of_scalar(const Section& section, std::string_view key, const toml::node& node) {
  if (node.is_string()) return node.as_string()->get();
  if (node.is_integer()) return std::to_string(node.as_integer()->get());
  section.fail_at(key, fmt::format("'{}' must be a string or a whole number", key));
}

}  // namespace embers::job
