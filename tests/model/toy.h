#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/layers/embedding.h"
#include "model/layers/model.h"
#include "model/step.h"

namespace embers::toy {

// What a call throws, for expectations about message and code.
struct Thrown {
  bool any = false;
  ErrorCode code{};
  std::string what;
};

inline Thrown thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return {true, e.code(), e.what()};
  }
  return {};
}

inline void expect_thrown(ErrorCode code, const std::vector<std::string>& parts,
                          const std::function<void()>& call) {
  const Thrown thrown = thrown_by(call);
  ASSERT_TRUE(thrown.any) << "nothing was thrown";
  EXPECT_EQ(name(thrown.code), name(code)) << thrown.what;
  for (const std::string& part : parts) EXPECT_NE(thrown.what.find(part), std::string::npos) << thrown.what;
}

inline void expect_invalid(const std::vector<std::string>& parts, const std::function<void()>& call) {
  expect_thrown(ErrorCode::kInvalid, parts, call);
}

// Ids of int64 or string features; each inner list is an example's.
template <class T>
Ids ids_of(const std::vector<std::vector<T>>& examples) {
  Ids ids;
  ids.keys = Keys(std::is_same_v<T, int64_t> ? KeyKind::kInt64 : KeyKind::kBytes);
  const size_t width = examples.empty() ? 0 : examples.front().size();
  bool dense = true;
  for (const std::vector<T>& example : examples) {
    for (const T& id : example) ids.keys.push_back(id);
    ids.offsets.push_back(static_cast<int64_t>(ids.keys.size()));
    dense = dense && example.size() == width;
  }
  ids.width = dense ? static_cast<int64_t>(width) : 0;
  return ids;
}
using Ints = std::vector<std::vector<int64_t>>;
using Strings = std::vector<std::vector<std::string>>;

inline job::Feature feature(const std::string& name, KeyKind kind) {
  job::Feature feature;
  feature.name = feature.column = name;
  feature.key_kind = kind;
  return feature;
}

inline job::Feature numeric(const std::string& name) {
  job::Feature feature;
  feature.name = feature.column = name;
  feature.categorical = false;
  return feature;
}

inline job::Job job_of(const std::vector<job::Feature>& features, const std::string& model = "toy",
                       nlohmann::json params = nlohmann::json::object()) {
  job::Job job;
  job.source.path = "toy.toml";
  job.model.name = model;
  job.model.params = std::move(params);
  job.source.text = "[model]\n";
  job.features = features;
  job.job.seed = 11;
  return job;
}

// A model of whatever layers and forward function a test needs. Its loss is the output's sum; labels are not
// used.
class ToyModel : public Model {
 public:
  using Forward = std::function<torch::Tensor(ToyModel&, const Batch&)>;
  explicit ToyModel(Forward forward) : forward_(std::move(forward)) {}
  torch::Tensor forward(const Batch& batch) override { return forward_(*this, batch); }
  torch::Tensor loss(const torch::Tensor& output, const Batch&) override { return output.sum(); }
  torch::Tensor score(const torch::Tensor& output) override { return output.detach().flatten(1).sum(1); }

  template <class Module>
  Module add(const std::string& name, Module module) {
    return register_module(name, module);
  }

 private:
  Forward forward_;
};

inline EmbeddingOptions options(const std::string& table, int64_t dim,
                                const std::vector<std::string>& features, Combiner combiner = Combiner::kNone,
                                KeyKind kind = KeyKind::kInt64) {
  EmbeddingOptions options(table, dim);
  options.features = features;
  options.combiner = combiner;
  options.key_kind = kind;
  return options;
}

// Stands for the parameter server: a row is a function of table and key, and late pulls are counted.
class Server {
 public:
  // Value k of a row. Keys are small numbers, so that a dense reference can hold the same values.
  static float value(TableId table, int64_t key, size_t k) {
    const auto mixed =
        static_cast<uint32_t>(key * 7919 + static_cast<int64_t>(k) * 104729 + table * 1299709 + 17);
    return static_cast<float>(mixed % 1000) / 500 - 1;
  }
  // The same table as a dense matrix of keys 0 .. rows-1.
  static torch::Tensor dense(TableId table, int64_t rows, int64_t dim) {
    torch::Tensor matrix = torch::empty({rows, dim});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t k = 0; k < dim; ++k) matrix[r][k] = value(table, r, static_cast<size_t>(k));
    return matrix;
  }

  PulledRows pull(const ModelSpec& spec, const Lookups& lookups) const {
    PulledRows rows;
    for (const Lookups::Table& table : lookups.tables) {
      FloatBuffer bet(table.unique.size() * spec.tables[table.table].dim);
      fill(table.table, table.unique, bet.span());
      rows.bets.push_back(std::move(bet));
    }
    return rows;
  }

  ModelRunner::LatePull late() {
    return [this](TableId table, KeysView keys, std::span<float> out) {
      late_keys.push_back(Keys(keys));
      fill(table, keys, out);
    };
  }

  std::vector<Keys> late_keys;  // of each late pull

 private:
  static void fill(TableId table, KeysView keys, std::span<float> out) {
    const size_t dim = keys.empty() ? 0 : out.size() / keys.size();
    for (size_t i = 0; i < keys.size(); ++i) {
      const int64_t key =
          keys.kind == KeyKind::kInt64 ? keys.ints[i] : static_cast<int64_t>(keys.bytes_at(i).size());
      for (size_t k = 0; k < dim; ++k) out[i * dim + k] = value(table, key, k);
    }
  }
};

inline StepResult train(ModelRunner& runner, Server& server, const data::Minibatch& minibatch) {
  const Lookups lookups = runner.dedupe(minibatch);
  return runner.train(minibatch, lookups, server.pull(runner.spec(), lookups), server.late());
}

inline StepResult evaluate(ModelRunner& runner, Server& server, const data::Minibatch& minibatch) {
  const Lookups lookups = runner.dedupe(minibatch);
  return runner.evaluate(minibatch, lookups, server.pull(runner.spec(), lookups), server.late());
}

inline data::Minibatch minibatch_of(std::vector<Ids> ids, std::vector<float> labels = {},
                                    std::vector<float> numeric = {}) {
  data::Minibatch minibatch;
  minibatch.examples = ids.empty() ? static_cast<int64_t>(labels.size()) : ids.front().examples();
  minibatch.ids = std::move(ids);
  minibatch.labels = std::move(labels);
  minibatch.numeric = std::move(numeric);
  return minibatch;
}

// Gradient rows by int64 key.
inline std::map<int64_t, std::vector<float>> by_key(const IndexedSlices& slices) {
  std::map<int64_t, std::vector<float>> rows;
  const size_t n = slices.keys.size();
  const size_t dim = n == 0 ? 0 : slices.values.size() / n;
  for (size_t i = 0; i < n; ++i)
    rows[slices.keys.view().ints[i]].assign(slices.values.data() + i * dim,
                                            slices.values.data() + (i + 1) * dim);
  return rows;
}

inline void expect_near(const std::vector<float>& got, const torch::Tensor& wanted, float tolerance = 1e-5f) {
  const torch::Tensor flat = wanted.contiguous().flatten();
  ASSERT_EQ(static_cast<int64_t>(got.size()), flat.numel());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], flat[static_cast<int64_t>(i)].item<float>(), tolerance) << "element " << i;
}

// Every slice's row equals the dense gradient's row of its key, and every other row of the dense gradient is
// zero.
inline void expect_slices_equal(const IndexedSlices& slices, const torch::Tensor& dense_gradient) {
  const auto rows = by_key(slices);
  ASSERT_EQ(rows.size(), slices.keys.size()) << "keys are not unique";
  for (int64_t key = 0; key < dense_gradient.size(0); ++key) {
    const auto at = rows.find(key);
    if (at == rows.end()) {
      EXPECT_EQ(dense_gradient[key].abs().sum().item<float>(), 0) << "key " << key;
    } else {
      SCOPED_TRACE(key);
      expect_near(at->second, dense_gradient[key]);
    }
  }
}

}  // namespace embers::toy
