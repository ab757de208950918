#include "job/features/columns_section.h"

#include "base/suggest.h"
#include "job/document/section.h"
#include "job/sections/specs.h"

namespace embers::job {
namespace {

using Kind = InputColumn::Kind;

const Feature& feature_of(const Section& section, std::string_view key, const std::string& name,
                          const std::vector<Feature>& features) {
  std::vector<std::string> names;
  for (const Feature& feature : features) {
    if (feature.name == name) return feature;
    names.push_back(feature.name);
  }
  section.fail_at(key, fmt::format("there is no feature '{}'{}", name, suggestion(name, names)));
}

void check_feature(const Section& section, const InputColumn& column, const Feature& feature) {
  if (feature.categorical == (column.kind == Kind::kNumeric)) {
    section.fail_at("as", fmt::format("'{}' is a {} feature, which this kind of column does not take",
                                      feature.name, feature.categorical ? "categorical" : "numeric"));
  }
  if (column.kind == Kind::kIndicator && feature.ids.buckets() == 0) {
    section.fail_at(
        "as", fmt::format("an indicator needs a known number of ids, but feature '{}' may have any number: "
                          "give vocabulary_size for a vocabulary_file, or hash or embed the feature",
                          feature.name));
  }
}

void read_embedding(Section& section, InputColumn& column) {
  if (!section.has("dimension")) section.fail_at("as", "an embedding needs a 'dimension'");
  section.read_count("dimension", column.dimension, 1);
  section.read_choice("combiner", column.combiner, {{"mean", "mean"}, {"sum", "sum"}, {"sqrtn", "sqrtn"}});
  column.initializer = read_named<InitializerSpec>(section, "initializer");
  section.read_positive("max_norm", column.max_norm);
  section.read("do_fusion", column.do_fusion);
}

InputColumn read_input_column(Section section, const std::string& name,
                              const std::vector<Feature>& features) {
  InputColumn column;
  column.name = name;
  if (!section.has("as"))
    section.fail_at("as", "needs 'as': numeric, embedding, indicator or shared_embedding");
  section.read_choice("as", column.kind,
                      {{"numeric", Kind::kNumeric},
                       {"embedding", Kind::kEmbedding},
                       {"indicator", Kind::kIndicator},
                       {"shared_embedding", Kind::kSharedEmbedding}});
  const char* key = "feature";
  if (column.kind == Kind::kSharedEmbedding) {
    key = "features";
    section.read(key, column.features);
    section.read("shared_embedding_collection_name", column.table);
    if (column.features.size() < 2) section.fail_at(key, "'features' must be a list of two or more features");
  } else {
    column.features = {name};
    section.read(key, column.features.front());
  }
  if (column.kind == Kind::kEmbedding || column.kind == Kind::kSharedEmbedding)
    read_embedding(section, column);
  section.done();
  for (const std::string& feature : column.features)
    check_feature(section, column, feature_of(section, key, feature, features));
  return column;
}

}  // namespace

std::vector<InputColumn> read_input_columns(const toml::table& table, const std::vector<Feature>& features,
                                            KnownKeys* known_keys) {
  std::vector<InputColumn> columns;
  for (const auto& [key, node] : in_file_order(table)) {
    const std::string name(key->str());
    const std::string title = fmt::format("[columns] '{}'", name);
    Section section(as_section(*node, title), title, "columns", known_keys);
    columns.push_back(read_input_column(std::move(section), name, features));
  }
  return columns;
}

}  // namespace embers::job
