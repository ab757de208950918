#include "job/features/categorical_keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/errors.h"

namespace embers::job {
namespace {

int64_t int_key(const Section& section, std::string_view key, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  section.fail_at(key, fmt::format("'{}' is '{}', which is not an int64 key", key, text));
}

// The key that is used for a missing value; it has the column's type.
void read_missing_key(Section& section, bool ints, Feature& feature) {
  const toml::node* const missing = section.find("missing");
  if (missing == nullptr) return;
  feature.has_missing_key = true;
  feature.missing_key = text_of_scalar(section, "missing", *missing);
  if (ints) int_key(section, "missing", feature.missing_key);
}

void read_raw(Section& section, const Column& column, Feature& feature) {
  feature.key_kind = column.type == ColumnType::kInt ? KeyKind::kInt64 : KeyKind::kBytes;
  section.read_choice("keys", feature.key_kind, {{"int64", KeyKind::kInt64}, {"string", KeyKind::kBytes}});
  if (feature.key_kind == KeyKind::kInt64 && column.type != ColumnType::kInt) {
    section.fail_at("keys", fmt::format("int64 keys need an int column; '{}' is not one", column.name));
  }
  read_missing_key(section, feature.key_kind == KeyKind::kInt64, feature);
}

constexpr int64_t kMaxBuckets = std::numeric_limits<int64_t>::max();

void need(const Section& section, std::string_view key) {
  if (!section.has(key)) section.fail_at("as", fmt::format("this kind of feature needs '{}'", key));
}

void read_default_value(Section& section, int64_t low, int64_t high, Categorical& ids) {
  if (section.find("default_value") == nullptr) return;
  int64_t value = 0;
  section.read_count("default_value", value, low, high);
  ids.default_value = value;
}

void read_identity(Section& section, const Column& column, Feature& feature) {
  if (column.type != ColumnType::kInt) {
    section.fail_at("as", fmt::format("identity needs an int column; '{}' is not one", column.name));
  }
  read_buckets(section, "num_buckets", feature.ids);
  read_default_value(section, 0, feature.ids.num_buckets - 1, feature.ids);
  read_missing_key(section, true, feature);
}

// Values of vocabulary_list as strings, numbers in their shortest form.
std::vector<std::string> read_vocabulary_list(Section& section, bool ints) {
  const toml::node* const node = section.find("vocabulary_list");
  const toml::array* const list = node->as_array();
  if (list == nullptr || list->empty()) {
    section.fail_at("vocabulary_list", "'vocabulary_list' must be a list of at least one value");
  }
  std::vector<std::string> entries;
  for (const toml::node& item : *list) {
    std::string text = text_of_scalar(section, "vocabulary_list", item);
    entries.push_back(ints ? std::to_string(int_key(section, "vocabulary_list", text)) : std::move(text));
  }
  return entries;
}

void read_vocabulary(Section& section, const Column& column, Feature& feature) {
  const bool ints = column.type == ColumnType::kInt;
  Categorical& ids = feature.ids;
  if (section.has("vocabulary_list") == section.has("vocabulary_file")) {
    section.fail_at("as", "this kind of feature needs either 'vocabulary_list' or 'vocabulary_file'");
  }
  if (section.has("vocabulary_list")) {
    try {
      ids.vocabulary = std::make_shared<const Vocabulary>(read_vocabulary_list(section, ints));
    } catch (const Error& e) {
      section.fail_at("vocabulary_list", e.what());
    }
  } else {
    section.read("vocabulary_file", ids.vocabulary_file);
    section.read_count("vocabulary_size", ids.vocabulary_size, 1, kMaxBuckets);
  }
  read_default_value(section, kNoId, kMaxBuckets - 1, ids);
  section.read_count("num_oov_buckets", ids.num_oov_buckets, 0);
  if (ids.num_oov_buckets > 0 && ids.default_value) {
    section.fail_at("default_value", "'default_value' and 'num_oov_buckets' cannot be combined");
  }
  read_missing_key(section, ints, feature);
}

void read_bucketized(Section& section, const Column& column, Feature& feature) {
  check_number(section, column);
  need(section, "boundaries");
  const toml::node* const node = section.find("boundaries");
  std::vector<double>& boundaries = feature.ids.boundaries;
  if (const toml::array* const list = node->as_array()) {
    for (const toml::node& item : *list)
      boundaries.push_back(item.is_number() ? *item.value<double>() : std::nan(""));
  }
  const bool finite =
      std::all_of(boundaries.begin(), boundaries.end(), [](double b) { return std::isfinite(b); });
  const bool ascending =
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end();
  if (boundaries.empty() || !finite || !ascending) {
    section.fail_at(
        "boundaries",
        "'boundaries' must be a list of at least one finite number, each larger than the one before");
  }
  feature.has_missing_key = section.has("missing");
  section.read("missing", feature.missing_number);
}

void check_hashable(const Section& section, const Column& column) {
  if (column.type == ColumnType::kInt || column.type == ColumnType::kString) return;
  section.fail_at(
      "as", fmt::format("this kind of feature needs an int or string column; '{}' is not one: bucketize it",
                        column.name));
}

}  // namespace

void read_buckets(Section& section, const char* key, Categorical& ids) {
  need(section, key);
  section.read_count(key, ids.num_buckets, 1, kMaxBuckets);
}

void check_number(const Section& section, const Column& column) {
  if (column.type != ColumnType::kString && column.separator.empty()) return;
  section.fail_at(
      "as", fmt::format("a numeric feature needs an int or float column with one value; '{}' is not one",
                        column.name));
}

void read_categorical(Section& section, const Column& column, As as, Feature& feature) {
  const bool ints = column.type == ColumnType::kInt;
  feature.key_kind = KeyKind::kInt64;
  switch (as) {
    case As::kIdentity:
      feature.ids.kind = IdKind::kIdentity;
      return read_identity(section, column, feature);
    case As::kHashBucket:
      check_hashable(section, column);
      feature.ids.kind = IdKind::kHashBucket;
      read_buckets(section, "hash_bucket_size", feature.ids);
      return read_missing_key(section, ints, feature);
    case As::kVocabulary:
      check_hashable(section, column);
      feature.ids.kind = IdKind::kVocabulary;
      return read_vocabulary(section, column, feature);
    case As::kBucketized:
      feature.ids.kind = IdKind::kBucketized;
      return read_bucketized(section, column, feature);
    default:
      return read_raw(section, column, feature);
  }
}

}  // namespace embers::job
