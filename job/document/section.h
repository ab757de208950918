#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "job/document/document.h"

namespace embers::job {

// One table of the job file, read key by key. Every key that was asked for is known; done() refuses the
// others. A key that is absent leaves the value as it is. Errors are kInvalid with file:line, section and
// key.
class Section {
 public:
  // `title` is for messages: "[training]"; `path` names the kind of section: "features" for each entry of
  // [features]. Keys that are asked for are noted in `known_keys` under that path. Table and keys outlive the
  // section.
  Section(const toml::table& table, std::string title, std::string path, KnownKeys* known_keys);
  // A table inside this one.
  Section below(const toml::table& table, std::string title, std::string_view name) const;

  // The value of a key, or nullptr; the key is known from now on.
  const toml::node* find(std::string_view key);
  bool has(std::string_view key) const { return table_.contains(key); }
  const std::string& title() const { return title_; }
  const toml::table& table() const { return table_; }
  // Where the section itself is.
  std::string place() const { return where(table_.source()); }

  void read(std::string_view key, std::string& value);
  void read(std::string_view key, bool& value);
  // A string, or a list of strings.
  void read(std::string_view key, std::vector<std::string>& value);
  // A finite number.
  void read(std::string_view key, double& value);
  // A list of finite numbers.
  void read(std::string_view key, std::vector<double>& value);
  // A finite number greater than 0.
  void read_positive(std::string_view key, double& value);
  template <class Int>
  void read_count(std::string_view key, Int& value, int64_t low,
                  int64_t high = std::numeric_limits<int32_t>::max()) {
    value = static_cast<Int>(integer(key, static_cast<int64_t>(value), low, high));
  }
  // Sets `value` to the one that goes with the key's string.
  template <class Enum>
  void read_choice(std::string_view key, Enum& value,
                   std::initializer_list<std::pair<const char*, Enum>> choices) {
    std::vector<std::string> names;
    for (const auto& [name, _] : choices) names.emplace_back(name);
    const int index = choice(key, names);
    if (index >= 0) value = (choices.begin() + index)->second;
  }
  // Every key that nobody asked for, as a hyper-parameter: a number, or a boolean as 0 or 1. After that, all
  // keys are known.
  std::map<std::string, double> read_params();

  // kInvalid for the first key that nobody asked for, with the nearest known one.
  void done() const;

  // kInvalid naming the place of a key (of the section if the key is absent).
  [[noreturn]] void fail_at(std::string_view key, const std::string& problem) const;

 private:
  int64_t integer(std::string_view key, int64_t otherwise, int64_t low, int64_t high);
  int choice(std::string_view key, const std::vector<std::string>& names);
  bool known(std::string_view key) const;

  const toml::table& table_;
  const std::string title_, path_;
  KnownKeys* const known_keys_;
  std::vector<std::string> known_;
};

// `node` as a table; kInvalid at its place if it is not one.
const toml::table& as_section(const toml::node& node, const std::string& title);

// A string, or a whole number as a string; kInvalid otherwise.
std::string text_of_scalar(const Section& section, std::string_view key, const toml::node& node);

}  // namespace embers::job
