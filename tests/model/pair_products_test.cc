#include "model/layers/pair_products.h"

#include <gtest/gtest.h>

#include "model/lookup/kernels/pair_product_kernels.h"
#include "tests/model/toy.h"

namespace embers {
namespace {

// Against libtorch: each example's matrix times its transpose, and its lower half.
TEST(PairProducts, AreThoseOfLibtorchAndSoAreTheirGradients) {
  torch::manual_seed(3);
  for (const auto& [examples, fields, dim] : {std::tuple<int64_t, int64_t, int64_t>{150, 27, 16},
                                              {3, 2, 1},
                                              {2, 1, 4},
                                              {1, 5, 7},
                                              {70, 9, 24},
                                              {5, 13, 17},
                                              {0, 3, 8}}) {
    const torch::Tensor ours = torch::randn({examples, fields, dim}).set_requires_grad(true);
    const torch::Tensor theirs = ours.detach().clone().set_requires_grad(true);
    const torch::Tensor pairs = at::tril_indices(fields, fields, -1);
    const torch::Tensor expected =
        at::bmm(theirs, theirs.transpose(1, 2)).index({torch::indexing::Slice(), pairs[0], pairs[1]});
    const torch::Tensor got = pair_products({ours});
    ASSERT_EQ(got.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(got, expected, 1e-4, 1e-5));
    const torch::Tensor weights = torch::randn(got.sizes());
    (got * weights).sum().backward();
    (expected * weights).sum().backward();
    EXPECT_TRUE(at::allclose(ours.grad(), theirs.grad(), 1e-4, 1e-4));
  }
}

TEST(PairProducts, ReadPartsWhereTheyAreAndStandBesideOthers) {
  torch::manual_seed(4);
  const auto leaf = [](at::IntArrayRef shape) { return torch::randn(shape).set_requires_grad(true); };
  const torch::Tensor one = leaf({70, 5}), several = leaf({70, 3, 5}), beside = leaf({70, 2});
  const torch::Tensor apart = pair_products({one, several, one}, beside);
  const torch::Tensor together =
      at::cat({beside, pair_products({at::cat({one.unsqueeze(1), several, one.unsqueeze(1)}, 1)})}, 1);
  EXPECT_TRUE(at::equal(apart, together));
  const torch::Tensor weights = torch::randn(apart.sizes());
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& out : {apart, together}) {
    (out * weights).sum().backward();
    for (const torch::Tensor& x : {one, several, beside})
      gradients.push_back(std::exchange(x.mutable_grad(), {}));
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::allclose(gradients[i], gradients[i + 3], 1e-5, 1e-5)) << i;
  EXPECT_TRUE(at::equal(pair_products({one, several}, torch::zeros({70, 0})), pair_products({one, several})));
}

// Other threads may have written what lies around a range of examples, and `before` is somebody else's.
TEST(PairProducts, WriteNothingButTheirOwn) {
  for (const int64_t fields : {1, 2, 8, 13, 27}) {
    const FieldsShape shape{fields, 5, 3};
    constexpr int64_t kExamples = 4, kAround = 16;
    const std::vector<float> x(static_cast<size_t>(kExamples * fields * shape.dim), 1.0f);
    std::vector<FieldRows<const float>> rows;
    for (int64_t f = 0; f < fields; ++f) rows.push_back({x.data() + f * shape.dim, fields * shape.dim});
    std::vector<float> out(static_cast<size_t>(kExamples * shape.width() + 2 * kAround), -1.0f);
    pair_products(shape, 2, 4, rows, out.data() + kAround);
    pair_products(shape, 0, 2, rows, out.data() + kAround);
    for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i) {
      const int64_t at = i - kAround;
      const bool theirs = at >= 0 && at < kExamples * shape.width() && at % shape.width() >= shape.before;
      EXPECT_EQ(out[static_cast<size_t>(i)], theirs ? 5.0f : -1.0f) << fields << " fields, float " << at;
    }
  }
}

TEST(PairProducts, OfNoFieldsAreNone) {
  EXPECT_EQ(pair_products(torch::zeros({4, 0, 3})).sizes(), at::IntArrayRef({4, 0}));
  EXPECT_EQ(pair_products(torch::zeros({4, 3, 0})).sizes(), at::IntArrayRef({4, 3}));
}

TEST(PairProducts, RefuseWhatDoesNotFit) {
  const torch::Tensor fields = torch::zeros({2, 3, 4});
  toy::expect_invalid({"at least one"}, [&] { pair_products(std::vector<torch::Tensor>{}); });
  toy::expect_invalid({"3 examples", "2 and 4"}, [&] { pair_products({fields, torch::zeros({3, 4})}); });
  toy::expect_invalid({"beside"}, [&] { pair_products({fields}, torch::zeros({3, 4})); });
}

}  // namespace
}  // namespace embers
