#include <algorithm>
#include <set>

#include "base/suggest.h"
#include "model/layers/embedding.h"
#include "model/layers/model.h"

namespace embers {

struct ModelConfig::State {
  job::Job job;
  data::FeatureSchema features;
  std::set<std::string> asked;  // keys that a model wanted to know, present or not
  bool asked_columns = false;   // [columns]
};

namespace {

using nlohmann::json;

bool is(const json& value, int64_t) { return value.is_number_integer(); }
bool is(const json& value, double) { return value.is_number(); }
bool is(const json& value, bool) { return value.is_boolean(); }
bool is(const json& value, const std::string&) { return value.is_string(); }
template <class T>
bool is(const json& value, const std::vector<T>&) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& v) { return is(v, T()); });
}

// Value of a key of [model], noting that it was asked for.
template <class T>
T read(const job::Job& job, std::set<std::string>& asked, const std::string& key, T otherwise,
       const char* wanted) {
  asked.insert(key);
  const json& params = job.model.params;
  const auto at = params.is_object() ? params.find(key) : params.end();
  if (at == params.end()) return otherwise;
  if (!is(*at, T()))
    fail(ErrorCode::kInvalid, "{}: [model] {} = {} is not {}", job.place({"model", key}), key, at->dump(),
         wanted);
  return at->template get<T>();
}

}  // namespace

ModelConfig::ModelConfig(const job::Job& job)
    : state_(std::make_shared<State>(State{job, job.feature_schema(), {}, false})) {}

const data::FeatureSchema& ModelConfig::features() const { return state_->features; }
const std::string& ModelConfig::name() const { return state_->job.model.name; }
uint64_t ModelConfig::seed() const { return state_->job.job.seed; }
std::string ModelConfig::place(const std::string& key) const { return state_->job.place({"model", key}); }

int64_t ModelConfig::get_int(const std::string& key, int64_t otherwise) const {
  return read(state_->job, state_->asked, key, otherwise, "a whole number");
}

double ModelConfig::get_double(const std::string& key, double otherwise) const {
  return read(state_->job, state_->asked, key, otherwise, "a number");
}

bool ModelConfig::get_bool(const std::string& key, bool otherwise) const {
  return read(state_->job, state_->asked, key, otherwise, "true or false");
}

std::string ModelConfig::get_string(const std::string& key, const std::string& otherwise) const {
  return read(state_->job, state_->asked, key, otherwise, "a string");
}

std::vector<int64_t> ModelConfig::get_ints(const std::string& key, std::vector<int64_t> otherwise) const {
  return read(state_->job, state_->asked, key, std::move(otherwise), "a list of whole numbers");
}

std::vector<std::string> ModelConfig::get_strings(const std::string& key,
                                                  std::vector<std::string> otherwise) const {
  return read(state_->job, state_->asked, key, std::move(otherwise), "a list of strings");
}

const std::vector<job::InputColumn>& ModelConfig::columns() const {
  state_->asked_columns = true;
  return state_->job.columns;
}

int64_t ModelConfig::dim(const std::string& table, int64_t otherwise) const {
  if (otherwise < 1 || otherwise > kMaxDim)
    fail(ErrorCode::kInvalid, "{}: embedding table '{}' would have dim {}: it must be 1 to {}", place("dim"),
         table, otherwise, kMaxDim);
  return state_->job.dim_for(table, static_cast<uint32_t>(otherwise));
}

void ModelConfig::check_all_read() const {
  const job::Job& job = state_->job;
  if (!job.columns.empty() && !state_->asked_columns)
    fail(ErrorCode::kInvalid,
         "{}: model '{}' takes the features as they are and reads no [columns]: leave them out, or use a "
         "model with an input layer, such as dnn",
         job.place({"columns"}), job.model.name);
  if (!job.model.params.is_object()) return;
  for (const auto& item : job.model.params.items()) {
    if (state_->asked.contains(item.key())) continue;
    const std::vector<std::string> known(state_->asked.begin(), state_->asked.end());
    fail(ErrorCode::kInvalid, "{}: model '{}' has no setting '{}'{}", place(item.key()), job.model.name,
         item.key(), suggestion(item.key(), known));
  }
}

}  // namespace embers
