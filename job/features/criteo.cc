#include "job/features/criteo.h"

namespace embers::job {

namespace {

Column column(std::string name, ColumnType type) {
  Column column;
  column.name = std::move(name);
  column.type = type;
  return column;
}

}  // namespace

std::vector<Column> criteo_columns() {
  std::vector<Column> columns = {column("label", ColumnType::kLabel)};
  columns[0].positive = {"1"};
  columns[0].negative = {"0"};
  // kFloat: some published samples write counts as "260.0".
  for (int i = 1; i <= 13; ++i) columns.push_back(column(fmt::format("I{}", i), ColumnType::kFloat));
  for (int i = 1; i <= 26; ++i) columns.push_back(column(fmt::format("C{}", i), ColumnType::kString));
  return columns;
}

std::vector<Feature> criteo_features() {
  std::vector<Feature> features;
  for (const Column& column : criteo_columns()) {
    if (column.type == ColumnType::kLabel) continue;
    Feature feature;
    feature.name = feature.column = column.name;
    feature.categorical = column.type == ColumnType::kString;
    feature.has_missing_key = feature.categorical;
    if (!feature.categorical) feature.transform = Transform::kLog1p;
    features.push_back(std::move(feature));
  }
  return features;
}

}  // namespace embers::job
