#include "job/features/features_section.h"

#include <algorithm>

#include "base/errors.h"
#include "base/suggest.h"
#include "job/document/section.h"
#include "job/features/categorical_keys.h"
#include "job/features/criteo.h"

namespace embers::job {
namespace {

const Column& column_of(const Section& section, std::string_view key, const std::string& name,
                        const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Column& column : columns) {
    if (column.name == name) return column;
    names.push_back(column.name);
  }
  section.fail_at(key, fmt::format("there is no column '{}'{}", name, suggestion(name, names)));
}

void read_transform(Section& section, Feature& feature) {
  section.read_choice("transform", feature.transform,
                      {{"none", Transform::kNone},
                       {"standardize", Transform::kStandardize},
                       {"minmax", Transform::kMinMax},
                       {"log1p", Transform::kLog1p}});
  const auto need = [&](std::initializer_list<const char*> keys) {
    for (const char* const key : keys) {
      if (!section.has(key)) section.fail_at("transform", fmt::format("this transform needs '{}'", key));
    }
  };
  if (feature.transform == Transform::kStandardize) {
    need({"mean", "std"});
    section.read("mean", feature.a);
    section.read_positive("std", feature.b);
    feature.missing_number = feature.a;
  } else if (feature.transform == Transform::kMinMax) {
    need({"min", "max"});
    double max = 0;
    section.read("min", feature.a);
    section.read("max", max);
    feature.b = max - feature.a;
    if (!(feature.b > 0)) section.fail_at("max", "'max' must be greater than 'min'");
  }
}

void read_numeric(Section& section, const Column& column, Feature& feature) {
  check_number(section, column);
  read_transform(section, feature);
  section.read("missing", feature.missing_number);
}

As read_as(Section& section) {
  As as = As::kByColumn;
  section.read_choice("as", as,
                      {{"categorical", As::kRaw},
                       {"numeric", As::kNumeric},
                       {"identity", As::kIdentity},
                       {"hash_bucket", As::kHashBucket},
                       {"vocabulary", As::kVocabulary},
                       {"bucketized", As::kBucketized},
                       {"crossed", As::kCrossed}});
  return as;
}

void read_weights(Section& section, const std::vector<Column>& columns, Feature& feature) {
  section.read("weights", feature.weights);
  if (!section.has("weights")) return;
  const Column& column = column_of(section, "weights", feature.weights, columns);
  if (column.type == ColumnType::kFloat) return;
  section.fail_at("weights", fmt::format("weights need a float column; '{}' is not one", column.name));
}

// Reads everything but the inputs of a crossed feature, which may be features that come after it.
Feature read_feature(Section section, const std::string& name, const std::vector<Column>& columns) {
  Feature feature;
  feature.name = name;
  As as = read_as(section);
  if (as == As::kCrossed) {
    feature.key_kind = KeyKind::kInt64;
    feature.ids.kind = IdKind::kCrossed;
    read_buckets(section, "hash_bucket_size", feature.ids);
    section.read_count("hash_key", feature.ids.hash_key, 0, std::numeric_limits<int64_t>::max());
    section.find("keys");
  } else {
    feature.column = name;
    section.read("column", feature.column);
    const Column& column = column_of(section, "column", feature.column, columns);
    if (column.type == ColumnType::kLabel || column.type == ColumnType::kIgnore) {
      section.fail_at("column", fmt::format("column '{}' is {}, which cannot be a feature", column.name,
                                            column.type == ColumnType::kLabel ? "the label" : "ignored"));
    }
    if (as == As::kByColumn) as = column.type == ColumnType::kFloat ? As::kNumeric : As::kRaw;
    feature.categorical = as != As::kNumeric;
    if (feature.categorical) {
      read_categorical(section, column, as, feature);
    } else {
      read_numeric(section, column, feature);
    }
  }
  if (feature.categorical) read_weights(section, columns, feature);
  section.done();
  return feature;
}

// A column's own feature, for columns that [features] does not name.
Feature feature_of(const Column& column) {
  Feature feature;
  feature.name = feature.column = column.name;
  feature.categorical = column.type != ColumnType::kFloat;
  feature.key_kind = column.type == ColumnType::kInt ? KeyKind::kInt64 : KeyKind::kBytes;
  return feature;
}

bool feeds_by_default(const Column& column) {
  if (column.type == ColumnType::kFloat) return column.separator.empty();
  return column.type == ColumnType::kInt || column.type == ColumnType::kString;
}

// What a cross takes for one of its keys: the feature of that name, else the values of the column of that
// name.
Feature input_of(const Section& section, const std::string& key, const std::vector<Feature>& features,
                 const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Feature& feature : features) {
    if (feature.name == key) return feature;
    names.push_back(feature.name);
  }
  for (const Column& column : columns) {
    if (column.name == key && (feeds_by_default(column) || column.type == ColumnType::kFloat))
      return feature_of(column);
    names.push_back(column.name);
  }
  section.fail_at("keys",
                  fmt::format("there is no feature or column '{}' to cross{}", key, suggestion(key, names)));
}

// TensorFlow's rules for the keys of a crossed_column.
void check_input(const Section& section, const Feature& input) {
  if (!input.categorical) {
    section.fail_at("keys", fmt::format("'{}' is a number: cross a bucketized feature of it", input.name));
  }
  if (input.ids.kind == IdKind::kHashBucket) {
    section.fail_at(
        "keys", fmt::format("'{}' is hashed already, and two hashes collide more often: cross its column, "
                            "and give the hashed feature a name other than the column's",
                            input.name));
  }
  if (!input.weights.empty()) {
    section.fail_at("keys", fmt::format("'{}' has weights, which a cross cannot take", input.name));
  }
  if (input.ids.kind == IdKind::kCrossed && input.crossed.empty()) {
    section.fail_at("keys", fmt::format("crossed feature '{}' must come before this one", input.name));
  }
}

void read_cross(Section section, const std::vector<Column>& columns, const std::vector<Feature>& features,
                Feature& feature) {
  std::vector<std::string> keys;
  section.read("keys", keys);
  if (keys.size() < 2)
    section.fail_at("keys", "'keys' must be a list of two or more features or columns to cross");
  for (const std::string& key : keys) {
    const Feature input = input_of(section, key, features, columns);
    check_input(section, input);
    // A cross of another cross takes the inputs of that other one.
    if (input.ids.kind == IdKind::kCrossed) {
      feature.crossed.insert(feature.crossed.end(), input.crossed.begin(), input.crossed.end());
    } else {
      feature.crossed.push_back(input);
    }
  }
}

std::vector<Feature> default_features(const std::vector<Column>& columns) {
  std::vector<Feature> features;
  for (const Column& column : columns)
    if (feeds_by_default(column)) features.push_back(feature_of(column));
  return features;
}

}  // namespace

std::vector<Feature> read_features(const toml::table* table, const DataSection& data, KnownKeys* known_keys) {
  if (table == nullptr || table->empty()) {
    return data.format == "criteo" ? criteo_features() : default_features(data.columns);
  }
  std::vector<Feature> features;
  std::vector<Section> sections;
  for (const auto& [key, node] : in_file_order(*table)) {
    const std::string name(key->str());
    const std::string title = fmt::format("[features] '{}'", name);
    sections.emplace_back(as_section(*node, title), title, "features", known_keys);
    features.push_back(read_feature(sections.back(), name, data.columns));
  }
  for (size_t i = 0; i < features.size(); ++i)
    if (features[i].ids.kind == IdKind::kCrossed)
      read_cross(sections[i], data.columns, features, features[i]);
  return features;
}

}  // namespace embers::job
