#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "base/floats/prefetch.h"
#include "bench/peers/plain_tables.h"
#include "bench/peers/row_adam.h"

namespace embers {
namespace {

using at::Tensor;

constexpr int64_t kAhead = 32;  // rows that come from memory meanwhile

class StackedTables final : public PlainTables {
 public:
  StackedTables(const data::FeatureSchema& schema, const std::vector<Group>& groups,
                const AdamSettings& settings)
      : settings_(settings), features_(static_cast<int64_t>(schema.categorical.size())) {
    int64_t rows = 0;
    for (const data::CategoricalFeature& feature : schema.categorical) {
      first_row_.push_back(rows);
      rows += static_cast<int64_t>(feature.buckets);
    }
    place_.assign(static_cast<size_t>(rows), -1);
    for (const Group& group : groups) {
      Matrix matrix{group.dim, at::empty({rows, group.dim}), at::zeros({rows, group.dim}),
                    at::zeros({rows, group.dim})};
      group.zero ? matrix.rows.zero_() : matrix.rows.uniform_(-0.05, 0.05);
      matrices_.push_back(std::move(matrix));
    }
  }

  std::shared_ptr<Prepared> prepare(const data::Minibatch& m) override {
    auto ids = row_numbers(m);
    find_unique(*ids);
    return ids;
  }

  Tensors lookup(const data::Minibatch& m, std::shared_ptr<Prepared> prepared) override {
    ids_ = prepared ? std::static_pointer_cast<MinibatchIds>(prepared) : row_numbers(m);
    Tensors out;
    for (const Matrix& matrix : matrices_) {
      out.push_back(at::empty({ids_->examples, features_, matrix.dim}));
      gather(matrix, out.back().data_ptr<float>());
      out.back().set_requires_grad(true);
    }
    return out;
  }

  // Row numbers; then for each group the sums of their gradients.
  Tensors gradients(const Tensors& of_lookup) override {
    if (ids_->unique.empty()) find_unique(*ids_);
    std::vector<int64_t> first(1, 0);  // unique row of each feature
    for (const auto& rows : ids_->unique) first.push_back(first.back() + static_cast<int64_t>(rows.size()));
    Tensors gradients{at::empty({first.back()}, at::kInt)};
    for (size_t f = 0; f < ids_->unique.size(); ++f)
      std::copy(ids_->unique[f].begin(), ids_->unique[f].end(), gradients[0].data_ptr<int32_t>() + first[f]);
    for (size_t g = 0; g < matrices_.size(); ++g) {
      const int64_t dim = matrices_[g].dim;
      const Tensor given = of_lookup[g].contiguous();
      gradients.push_back(at::zeros({first.back(), dim}));
      const float* const from = given.data_ptr<float>();
      float* const sums = gradients.back().data_ptr<float>();
      at::parallel_for(0, features_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t f = begin; f < end; ++f)
          add_up(f, dim, from, sums + first[static_cast<size_t>(f)] * dim);
      });
    }
    return gradients;
  }

  void apply(const Tensors& gradients) override {
    ++steps_;
    const double rate = settings_.learning_rate * std::sqrt(1 - std::pow(settings_.beta_2, steps_)) /
                        (1 - std::pow(settings_.beta_1, steps_));
    const RowAdam adam{static_cast<float>(settings_.beta_1), static_cast<float>(settings_.beta_2),
                       static_cast<float>(settings_.epsilon), static_cast<float>(rate)};
    const int32_t* const rows = gradients[0].data_ptr<int32_t>();
    for (size_t g = 0; g < matrices_.size(); ++g) {
      const int64_t dim = matrices_[g].dim;
      const float* const sums = gradients[g + 1].data_ptr<float>();
      float *const values = matrices_[g].rows.data_ptr<float>(),
                   *const averages = matrices_[g].averages.data_ptr<float>(),
                   *const squares = matrices_[g].squares.data_ptr<float>();
      at::parallel_for(0, gradients[0].numel(), 1024, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if (i + kAhead < end)
            for (float* const of : {values, averages, squares})
              prefetch_row(of + rows[i + kAhead] * dim, static_cast<size_t>(dim));
          const int64_t at = rows[i] * dim;
          adam_row(adam, dim, sums + i * dim, values + at, averages + at, squares + at);
        }
      });
    }
  }

 private:
  struct Matrix {
    int64_t dim;
    Tensor rows, averages, squares;  // [rows of all tables, dim]
  };

  // Example after example, as the result of a look-up lies in memory.
  struct MinibatchIds final : Prepared {
    int64_t examples = 0;
    std::vector<int32_t> rows;                 // [N, features]
    std::vector<std::vector<int32_t>> unique;  // of each feature; empty until they are looked for
    std::vector<int32_t> places;               // [N, features]: of rows among their feature's unique ones
  };

  std::shared_ptr<MinibatchIds> row_numbers(const data::Minibatch& m) const {
    for (const Ids& ids : m.ids)
      if (ids.examples() != m.examples || ids.keys.size() != static_cast<size_t>(m.examples))
        fail(ErrorCode::kInvalid, "stacked tables take features with one id in each example");
    auto ids = std::make_shared<MinibatchIds>();
    ids->examples = m.examples;
    ids->rows.resize(static_cast<size_t>(m.examples * features_));
    for (int64_t f = 0; f < features_; ++f) {
      const auto keys = m.ids[static_cast<size_t>(f)].keys.view().ints;
      for (int64_t e = 0; e < m.examples; ++e)
        ids->rows[static_cast<size_t>(e * features_ + f)] =
            static_cast<int32_t>(first_row_[static_cast<size_t>(f)] + keys[static_cast<size_t>(e)]);
    }
    return ids;
  }

  // Features have no rows in common.
  void find_unique(MinibatchIds& ids) {
    ids.unique.resize(static_cast<size_t>(features_));
    ids.places.resize(ids.rows.size());
    for (size_t f = 0; f < ids.unique.size(); ++f) {
      std::vector<int32_t>& unique = ids.unique[f];
      for (size_t i = f; i < ids.rows.size(); i += ids.unique.size()) {
        int32_t& place = place_[static_cast<size_t>(ids.rows[i])];
        if (place < 0) {
          place = static_cast<int32_t>(unique.size());
          unique.push_back(ids.rows[i]);
        }
        ids.places[i] = place;
      }
      for (const int32_t row : unique) place_[static_cast<size_t>(row)] = -1;
    }
  }

  void gather(const Matrix& matrix, float* out) const {
    const float* const rows = matrix.rows.data_ptr<float>();
    const int32_t* const row = ids_->rows.data();
    const int64_t dim = matrix.dim;
    at::parallel_for(0, ids_->examples * features_, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i + kAhead < end) prefetch_row(rows + row[i + kAhead] * dim, static_cast<size_t>(dim));
        std::copy_n(rows + row[i] * dim, dim, out + i * dim);
      }
    });
  }

  void add_up(int64_t feature, int64_t dim, const float* from, float* sums) const {
    const int32_t* const place = ids_->places.data();
    for (int64_t i = feature; i < ids_->examples * features_; i += features_) {
      const float* const gradient = from + i * dim;
      float* const sum = sums + place[i] * dim;
#pragma GCC ivdep
      for (int64_t k = 0; k < dim; ++k) sum[k] += gradient[k];
    }
  }

  const AdamSettings settings_;
  const int64_t features_;
  std::vector<int64_t> first_row_;  // of each feature's table
  std::vector<Matrix> matrices_;    // of each group
  std::vector<int32_t> place_;      // of each row among its feature's unique ones; -1 between two minibatches
  std::shared_ptr<MinibatchIds> ids_;  // of the last look-up
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<PlainTables> PlainTables::stacked(const data::FeatureSchema& schema,
                                                  const std::vector<Group>& groups,
                                                  const AdamSettings& settings) {
  return std::make_unique<StackedTables>(schema, groups, settings);
}

}  // namespace embers
