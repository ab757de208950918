#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/derive.h"
#include "job/job.h"
#include "model/layers/embedding.h"
#include "model/layers/model.h"
#include "model/lookup/dedupe.h"
#include "schema/table_spec.h"

namespace embers {

// What walking a model's modules found. Constant after construction.
struct Discovery {
  struct Layer {
    std::shared_ptr<EmbeddingImpl> module;
    std::string name;  // of the module, as libtorch's named_modules()
    TableId table;
  };
  std::vector<Layer> layers;  // in the model's own order, each once
  std::vector<int64_t> dims;  // of the embedding tables, by id
  // What the model's input layers make of the data's features, each once; and the features of a minibatch
  // that has these behind its own.
  std::vector<data::Derivation> derived;
  data::FeatureSchema schema;
  LookupPlan plan;
  ModelSpec spec;
};

// See model_spec() in step.h for what is refused; moreover kInvalid for a layer whose features the data does
// not have (nearest suggested) or has with ids of the other kind.
Discovery discover(const Model& model, const job::Job& job);

}  // namespace embers
