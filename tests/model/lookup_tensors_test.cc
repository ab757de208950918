#include "model/lookup/operators/lookup_tensors.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

TableTensors table_of(const torch::Tensor& rows, int64_t first) {
  return {{rows.slice(0, 0, first).clone().requires_grad_(), rows.slice(0, first).clone().requires_grad_()}};
}

// [[1, 4], [], [-1, 0, 4]] with weights.
SparseIdTensors ids_of(torch::ScalarType type) {
  return {torch::tensor({0, 0, 0, 1, 2, 0, 2, 1, 2, 2}, torch::kLong).view({5, 2}),
          torch::tensor({1, 4, -1, 0, 4}, type),
          {3, 3},
          torch::tensor({2.0f, 0.5f, 3.0f, 1.0f, 4.0f})};
}

TEST(LookupTensors, GradientsReachThePartitionsSparselyAndMatchDenseAutograd) {
  torch::manual_seed(1);
  const torch::Tensor rows = torch::randn({5, 3});
  for (const torch::ScalarType type : {torch::kLong, torch::kInt}) {
    const TableTensors table = table_of(rows, 3);
    const torch::Tensor out =
        fused_safe_embedding_lookup_sparse(table, ids_of(type), {Combiner::kMean, 1.0f, 2, {}});
    const torch::Tensor gradient = torch::randn({3, 3});
    out.backward(gradient);

    const torch::Tensor dense = rows.clone().requires_grad_();
    const torch::Tensor clipped = dense / dense.norm(2, {1}, true).clamp_min(1);
    const auto row = [&](int64_t i) { return clipped.index({i}); };
    const torch::Tensor want =
        torch::stack({(row(1) * 2 + row(4) * 0.5) / 2.5, row(2), (row(0) + row(4) * 4) / 5});
    want.backward(gradient);
    EXPECT_TRUE(torch::allclose(out, want, 1e-5, 1e-6));
    EXPECT_TRUE(torch::equal(table.params[0].grad()._indices(), torch::tensor({{0, 1, 2}}, torch::kLong)));
    EXPECT_TRUE(torch::equal(table.params[1].grad()._indices(), torch::tensor({{1}}, torch::kLong)));
    const torch::Tensor got =
        torch::cat({table.params[0].grad().to_dense(), table.params[1].grad().to_dense()});
    EXPECT_TRUE(torch::allclose(got, dense.grad(), 1e-5, 1e-6));
  }
}

TEST(LookupTensors, WeightsGetTheGradientOfDenseAutograd) {
  torch::manual_seed(1);
  const torch::Tensor rows = torch::randn({5, 3}), gradient = torch::randn({3, 3});
  for (const Combiner combiner : {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    SparseIdTensors ids = ids_of(torch::kLong);
    ids.weights = torch::tensor({2.0f, 0.5f, 3.0f, -1.0f, 4.0f}).requires_grad_();
    const TableTensors table = table_of(rows, 3);
    const torch::Tensor out = fused_safe_embedding_lookup_sparse(table, ids, {combiner, 1.0f, 2, {}});
    out.backward(gradient);

    // Of the third bag's ids the first is negative, and the second's weight is pruned unless combiner is sum.
    const torch::Tensor w = ids.weights.detach().clone().requires_grad_();
    const torch::Tensor clipped = rows / rows.norm(2, {1}, true).clamp_min(1);
    const auto bag = [&](std::vector<int64_t> which, std::vector<int64_t> row) {
      const torch::Tensor weights = w.index({torch::tensor(which, torch::kLong)}).unsqueeze(1);
      const torch::Tensor sum = (clipped.index({torch::tensor(row, torch::kLong)}) * weights).sum(0);
      if (combiner == Combiner::kSum) return sum;
      return sum / (combiner == Combiner::kMean ? weights.sum() : weights.square().sum().sqrt());
    };
    const torch::Tensor last = combiner == Combiner::kSum ? bag({3, 4}, {0, 4}) : bag({4}, {4});
    const torch::Tensor want = torch::stack({bag({0, 1}, {1, 4}), clipped.index({2}), last});
    want.backward(gradient);
    EXPECT_TRUE(torch::allclose(out, want, 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(ids.weights.grad(), w.grad(), 1e-4, 1e-5)) << ids.weights.grad() << w.grad();
  }
}

TEST(LookupTensors, WeightsThatAddUpToNothingGetNoGradient) {
  SparseIdTensors ids = ids_of(torch::kInt);
  ids.values = torch::tensor({1, 4, 1, 0, 4}, torch::kInt);
  ids.weights = torch::tensor({2.0f, -2.0f, 1.0f, 1.0f, 2.0f}).requires_grad_();
  embedding_lookup_sparse(table_of(torch::ones({5, 2}), 3), ids, Combiner::kMean).sum().backward();
  EXPECT_TRUE(torch::allclose(ids.weights.grad(), torch::zeros({5}), 0, 1e-6)) << ids.weights.grad();
}

TEST(LookupTensors, CallsOnOneTableAddUp) {
  const TableTensors table = table_of(torch::ones({4, 2}), 2);
  const torch::Tensor ids = torch::tensor({{3, 0}, {3, 3}}, torch::kLong);
  const torch::Tensor a = embedding_lookup(table, ids), b = embedding_lookup(table, ids);
  EXPECT_EQ(a.sizes().vec(), (std::vector<int64_t>{2, 2, 2}));
  (a.sum() + 2 * b.sum()).backward();
  EXPECT_TRUE(torch::equal(table.params[0].grad().to_dense(), torch::tensor({{3.0f, 3.0f}, {0.0f, 0.0f}})));
  EXPECT_TRUE(torch::equal(table.params[1].grad().to_dense(), torch::tensor({{0.0f, 0.0f}, {9.0f, 9.0f}})));
}

TEST(LookupTensors, RefuseWhatDoesNotFit) {
  const TableTensors table = table_of(torch::ones({4, 2}), 2);
  const torch::Tensor ids = torch::tensor({0}, torch::kLong);
  expect_error(ErrorCode::kInvalid, {"no partition"}, [&] { embedding_lookup({}, ids); });
  expect_error(ErrorCode::kInvalid, {"params[1]", "dim 3"}, [&] {
    embedding_lookup({{torch::ones({1, 2}), torch::ones({1, 3})}}, ids);
  });
  expect_error(ErrorCode::kInvalid, {"params[0]", "float32"}, [&] {
    embedding_lookup({{torch::ones({1, 2}, torch::kDouble)}}, ids);
  });
  expect_error(ErrorCode::kInvalid, {"ids must be"}, [&] { embedding_lookup(table, torch::ones({1})); });
  expect_error(ErrorCode::kInvalid, {"id 7"},
               [&] { embedding_lookup(table, torch::tensor({7}, torch::kLong)); });
  SparseIdTensors sparse = ids_of(torch::kLong);
  sparse.indices = sparse.indices.slice(0, 1);
  expect_error(ErrorCode::kInvalid, {"indices"},
               [&] { embedding_lookup_sparse(table, sparse, Combiner::kSum); });
  sparse = ids_of(torch::kLong);
  sparse.weights = sparse.weights.to(torch::kDouble);
  expect_error(ErrorCode::kInvalid, {"weights"},
               [&] { embedding_lookup_sparse(table, sparse, Combiner::kSum); });
}

}  // namespace
}  // namespace embers
