#include "model/zoo/zoo.h"

#include <functional>
#include <map>

#include "base/suggest.h"

namespace embers {
namespace {

using Factory = std::function<std::shared_ptr<Model>(const ModelConfig&)>;

const std::map<std::string, Factory>& zoo() {
  static const std::map<std::string, Factory> models{
      {"wide_deep", make_wide_deep}, {"deepfm", make_deepfm}, {"dlrm", make_dlrm}, {"dnn", make_dnn}};
  return models;
}

}  // namespace

std::shared_ptr<Model> make_zoo_model(const ModelConfig& config) {
  const auto factory = zoo().find(config.name());
  if (factory == zoo().end()) {
    std::vector<std::string> known;
    for (const auto& [name, make] : zoo()) known.push_back(name);
    fail(ErrorCode::kInvalid, "{}: there is no model '{}'{}, or set model.library to a library that has it",
         config.place("name"), config.name(), suggestion(config.name(), known));
  }
  if (config.features().numeric.empty() && config.features().categorical.empty())
    fail(ErrorCode::kInvalid, "{}: model '{}' needs at least one feature: add some under [features]",
         config.place("name"), config.name());
  return factory->second(config);
}

}  // namespace embers
