#include "model/lookup/once_differentiable.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/layers/pair_products.h"
#include "model/layers/second_order.h"
#include "model/lookup/combine_all.h"
#include "model/lookup/operators/lookup_tensors.h"

namespace embers {
namespace {

// A penalty on the gradient with respect to x.
void expect_no_second_gradient(const std::string& what, const torch::Tensor& x, const torch::Tensor& out) {
  const torch::Tensor gradient = torch::autograd::grad({out.square().sum()}, {x}, {}, true, true).front();
  ASSERT_TRUE(gradient.defined());
  try {
    (gradient.is_sparse() ? gradient.to_dense() : gradient).square().sum().backward();
    FAIL() << what << " was differentiated twice";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find(what + " can be differentiated once"), std::string::npos)
        << e.what();
  }
}

torch::Tensor leaf(at::IntArrayRef shape) { return torch::randn(shape).set_requires_grad(true); }

TEST(OnceDifferentiable, IsEveryOperatorWithAGradientOfItsOwn) {
  const torch::Tensor fields = leaf({4, 3, 2}), rows = leaf({3, 2});
  expect_no_second_gradient("pair_products", fields, pair_products(fields));
  expect_no_second_gradient("second_order", fields, second_order({fields}).sum);
  expect_no_second_gradient("a lookup", rows,
                            embedding_lookup({{rows}}, torch::tensor({2, 0, 2}, torch::kLong), {}));
  const std::vector<int32_t> position{1, 1, 2};
  CombineMemory memory;
  const auto pass = std::make_shared<CombinePass>(CombinePass{memory});
  expect_no_second_gradient("an embedding", rows,
                            combine_all({rows}, {{0, Combiner::kSum, {position, {}, {}, 1}}}, pass).front());
}

TEST(OnceDifferentiable, LeavesTheFirstGradientAsItIs) {
  const torch::Tensor fields = leaf({4, 3, 2});
  const auto gradient = [&](bool create_graph) {
    return torch::autograd::grad({pair_products(fields).square().sum()}, {fields}, {}, true, create_graph)
        .front();
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
}

}  // namespace
}  // namespace embers
