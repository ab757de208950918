#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/layers/model.h"

namespace embers {

// The models in the box. They take all features of the data, multi-valued ones included, and work with no
// numeric or no categorical features. Each file lists its settings, which are keys of [model], with their
// defaults.
std::shared_ptr<Model> make_wide_deep(const ModelConfig& config);
std::shared_ptr<Model> make_deepfm(const ModelConfig& config);
std::shared_ptr<Model> make_dlrm(const ModelConfig& config);
std::shared_ptr<Model> make_dnn(const ModelConfig& config);

// By model.name; kInvalid with the nearest name if there is none, or if the data has no features at all.
std::shared_ptr<Model> make_zoo_model(const ModelConfig& config);

}  // namespace embers
