#pragma once

#include "job/job.h"
#include "job/job_section.h"

namespace embers::job {

// The sections that take more than a line per key. All errors are kInvalid with file:line.

void read_data(Section& section, DataSection& data);

// `table` is [features], or nullptr for the default: every int and string column a categorical feature, every
// float column a numeric one.
std::vector<Feature> read_features(const toml::table* table, const DataSection& data, KnownKeys* known_keys);

// What `as` says a feature is.
enum class As : uint8_t {
  kByColumn,
  kNumeric,
  kRaw,
  kIdentity,
  kHashBucket,
  kVocabulary,
  kBucketized,
  kCrossed
};

// The keys of a categorical feature over `column` that is `as`: its ids, key_kind and what stands for a
// missing value.
void read_categorical(Section& section, const Column& column, As as, Feature& feature);
// The required number of buckets of hashed, crossed and identity features, under the name it has there.
void read_buckets(Section& section, const char* key, Categorical& ids);
// Refuses a column that is not one number.
void check_number(const Section& section, const Column& column);

// A name with its hyper-parameters, as [optimizer] or as the inline table of an initializer or optimizer.
template <class Spec>
Spec read_spec(Section section) {
  Spec spec;
  section.read("name", spec.name);
  spec.params = section.read_params();
  return spec;
}

// The same of an optimizer, which may have a table `schedule` of its learning rate.
template <>
UpdateRuleSpec read_spec<UpdateRuleSpec>(Section section);

// A name alone, or an inline table { name = ..., parameters }.
template <class Spec>
std::optional<Spec> read_named(Section& section, std::string_view key) {
  const toml::node* const node = section.find(key);
  if (node == nullptr) return std::nullopt;
  if (node->is_string()) {
    Spec spec;
    spec.name = node->as_string()->get();
    return spec;
  }
  const toml::table* const table = node->as_table();
  if (table == nullptr || !table->contains("name")) {
    section.fail_at(key, fmt::format("'{}' must be a name, or a table {{ name = ..., parameters }}", key));
  }
  return read_spec<Spec>(section.below(*table, fmt::format("{} '{}'", section.title(), key), key));
}

// [columns] over the features of the job.
std::vector<InputColumn> read_input_columns(const toml::table& table, const std::vector<Feature>& features,
                                            KnownKeys* known_keys);

// What numbers of rows are kept or sent as, if the section says it.
void read_number_type(Section& section, std::string_view key, NumberType& type);
void read_rounding(Section& section, Rounding& rounding);
// Refuses halves above servers.
void check_dtypes(const Job& job);

// [storage.tables], in order of the file.
std::vector<TableOverride> read_table_overrides(const Section& storage, const toml::table& table);

// `node` as a table; kInvalid at its place if it is none.
const toml::table& as_section(const toml::node& node, const std::string& title);

}  // namespace embers::job
