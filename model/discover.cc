#include "model/discover.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/suggest.h"
#include "model/columns/feature_column.h"
#include "model/dense.h"
#include "model/step.h"

namespace embers {
namespace {

std::vector<Discovery::Layer> find_layers(const Model& model) {
  std::vector<Discovery::Layer> layers;
  for (const auto& item : model.named_modules("", false)) {
    auto layer = std::dynamic_pointer_cast<EmbeddingImpl>(item.value());
    const bool seen =
        std::any_of(layers.begin(), layers.end(), [&](const auto& l) { return l.module == layer; });
    if (layer && !seen) layers.push_back({layer, item.key(), 0});
  }
  return layers;
}

// Kind of a layer's keys, if it says so itself or its features do.
std::optional<KeyKind> own_kind(const EmbeddingOptions& options, const data::FeatureSchema& schema) {
  if (options.key_kind) return options.key_kind;
  for (const std::string& feature : options.features)
    if (const int index = schema.categorical_index(feature); index >= 0)
      return schema.categorical[static_cast<size_t>(index)].key_kind;
  return std::nullopt;
}

// Names layers without a table, in the model's order, and finds out the kinds of all keys.
void settle(const std::vector<Discovery::Layer>& layers, const data::FeatureSchema& schema) {
  std::set<std::string> given;
  for (const Discovery::Layer& layer : layers) given.insert(layer.module->options().table);
  std::vector<std::string> tables;
  size_t number = 0;
  for (const Discovery::Layer& layer : layers) {
    std::string table = layer.module->options().table;
    while (given.contains(table) && layer.module->options().table.empty()) {
      table = number == 0 ? "embedding" : fmt::format("embedding_{}", number);
      ++number;
    }
    tables.push_back(std::move(table));
  }
  std::map<std::string, KeyKind> kinds;
  for (size_t l = 0; l < layers.size(); ++l)
    if (const auto kind = own_kind(layers[l].module->options(), schema)) kinds.try_emplace(tables[l], *kind);
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto own = own_kind(layers[l].module->options(), schema);
    const auto shared = kinds.find(tables[l]);
    layers[l].module->settle(tables[l],
                             own.value_or(shared == kinds.end() ? KeyKind::kBytes : shared->second));
  }
}

TableSpec table_of(const EmbeddingImpl& layer) {
  const EmbeddingOptions& options = layer.options();
  TableSpec table;
  table.name = layer.table();
  table.dim = static_cast<uint32_t>(options.output_dim);
  table.key_kind = layer.key_kind();
  table.input_dim = options.input_dim;
  table.initializer = options.initializer;
  table.constraint = options.embeddings_constraint;
  return table;
}

std::string difference(const TableSpec& a, const TableSpec& b) {
  if (a.dim != b.dim) return fmt::format("dim {} and dim {}", a.dim, b.dim);
  if (a.key_kind != b.key_kind) return fmt::format("{} keys and {} keys", name(a.key_kind), name(b.key_kind));
  if (a.initializer != b.initializer)
    return fmt::format("initializers '{}' and '{}' with their parameters", a.initializer.name,
                       b.initializer.name);
  if (a.constraint != b.constraint)
    return fmt::format("constraints '{}' and '{}' with their parameters", a.constraint.name,
                       b.constraint.name);
  if (a.input_dim != b.input_dim)
    return fmt::format("input_dim {} and input_dim {}", a.input_dim, b.input_dim);
  return "";
}

// A table's rows are penalized once, whichever layers touched them.
void check_regularizers(const Discovery::Layer& a, const Discovery::Layer& b) {
  if (a.module->options().embeddings_regularizer == b.module->options().embeddings_regularizer) return;
  fail(
      ErrorCode::kInvalid,
      "layers '{}' and '{}' share table '{}' but have different embeddings_regularizers: make them equal, or "
      "name two tables",
      a.name, b.name, a.module->table());
}

// The table of a layer, a new one if it is the first to name it.
TableId add_table(std::vector<TableSpec>& tables, const std::vector<Discovery::Layer>& layers, size_t layer) {
  const TableSpec table = table_of(*layers[layer].module);
  for (size_t other = 0; other < layer; ++other) {
    const TableSpec& theirs = tables[layers[other].table];
    if (theirs.name != table.name) continue;
    if (const std::string differs = difference(theirs, table); !differs.empty())
      fail(ErrorCode::kInvalid,
           "layers '{}' and '{}' share table '{}' but ask for {}: make them equal, or name two tables",
           layers[other].name, layers[layer].name, table.name, differs);
    check_regularizers(layers[other], layers[layer]);
    return layers[other].table;
  }
  tables.push_back(table);
  return static_cast<TableId>(tables.size() - 1);
}

size_t feature_of(const Discovery::Layer& layer, const std::string& feature,
                  const data::FeatureSchema& schema) {
  const int index = schema.categorical_index(feature);
  if (index < 0) {
    std::vector<std::string> known;
    for (const data::CategoricalFeature& f : schema.categorical) known.push_back(f.name);
    fail(ErrorCode::kInvalid, "layer '{}' reads categorical feature '{}', which the data does not have{}",
         layer.name, feature, suggestion(feature, known));
  }
  const KeyKind kind = schema.categorical[static_cast<size_t>(index)].key_kind;
  if (kind != layer.module->key_kind())
    fail(ErrorCode::kInvalid,
         "layer '{}' wants {} keys, but feature '{}' has {} ids: set the layer's key_kind to the feature's",
         layer.name, name(layer.module->key_kind()), feature, name(kind));
  return static_cast<size_t>(index);
}

// Every (layer, feature) once, ordered by table.
std::vector<LookupPlan::Source> sources_of(const std::vector<Discovery::Layer>& layers,
                                           const data::FeatureSchema& schema) {
  std::vector<LookupPlan::Source> sources;
  for (size_t l = 0; l < layers.size(); ++l) {
    const EmbeddingOptions& options = layers[l].module->options();
    for (const std::string& name : options.features) {
      const size_t feature = feature_of(layers[l], name, schema);
      const bool seen = std::any_of(sources.begin(), sources.end(),
                                    [&](const auto& s) { return s.layer == l && s.feature == feature; });
      if (!seen) sources.push_back({layers[l].table, l, feature, id_rules(options)});
    }
  }
  std::stable_sort(sources.begin(), sources.end(),
                   [](const auto& a, const auto& b) { return a.table < b.table; });
  return sources;
}

// Adds what the model's input layers derive to the features that the data has.
void find_derived(const Model& model, Discovery& found) {
  for (const std::shared_ptr<torch::nn::Module>& module : model.modules(false)) {
    const auto layer = std::dynamic_pointer_cast<InputLayerImpl>(module);
    if (!layer) continue;
    for (const data::Derivation& derivation : layer->derived()) {
      data::CategoricalFeature feature = derivation.schema();
      if (found.schema.categorical_index(feature.name) >= 0) continue;
      found.schema.categorical.push_back(std::move(feature));
      found.derived.push_back(derivation);
    }
  }
}

void add_dense(const Model& model, const job::Job& job, ModelSpec& spec) {
  spec.dense = dense_params(model);
  const auto has = [&](bool buffer) {
    return std::any_of(spec.dense.begin(), spec.dense.end(),
                       [&](const DenseParam& p) { return p.buffer == buffer && p.numel() > 0; });
  };
  if (has(false)) spec.tables.push_back(dense_table(job.optimizer));
  if (has(true)) spec.tables.push_back(buffer_table());
}

}  // namespace

Discovery discover(const Model& model, const job::Job& job) {
  Discovery found;
  found.layers = find_layers(model);
  found.schema = job.feature_schema();
  find_derived(model, found);
  settle(found.layers, found.schema);
  for (size_t l = 0; l < found.layers.size(); ++l)
    found.layers[l].table = add_table(found.spec.tables, found.layers, l);
  for (TableSpec& table : found.spec.tables) {
    job.apply_overrides(table);
    found.dims.push_back(table.dim);
    found.plan.kinds.push_back(table.key_kind);
  }
  found.plan.sources = sources_of(found.layers, found.schema);
  add_dense(model, job, found.spec);
  return found;
}

ModelSpec model_spec(const Model& model, const job::Job& job) { return discover(model, job).spec; }

}  // namespace embers
