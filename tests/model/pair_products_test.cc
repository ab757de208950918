#include "model/layers/pair_products.h"

#include <gtest/gtest.h>

namespace embers {
namespace {

// Against libtorch: each example's matrix times its transpose, and its lower half.
TEST(PairProducts, AreThoseOfLibtorchAndSoAreTheirGradients) {
  torch::manual_seed(3);
  for (const auto& [examples, fields, dim] :
       {std::tuple<int64_t, int64_t, int64_t>{150, 27, 16}, {3, 2, 1}, {2, 1, 4}, {1, 5, 7}}) {
    const torch::Tensor ours = torch::randn({examples, fields, dim}).set_requires_grad(true);
    const torch::Tensor theirs = ours.detach().clone().set_requires_grad(true);
    const torch::Tensor pairs = at::tril_indices(fields, fields, -1);
    const torch::Tensor expected =
        at::bmm(theirs, theirs.transpose(1, 2)).index({torch::indexing::Slice(), pairs[0], pairs[1]});
    const torch::Tensor got = pair_products(ours);
    ASSERT_EQ(got.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(got, expected, 1e-4, 1e-5));
    const torch::Tensor weights = torch::randn(got.sizes());
    (got * weights).sum().backward();
    (expected * weights).sum().backward();
    EXPECT_TRUE(at::allclose(ours.grad(), theirs.grad(), 1e-4, 1e-4));
  }
}

}  // namespace
}  // namespace embers
