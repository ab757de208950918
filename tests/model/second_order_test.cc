#include "model/layers/second_order.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/model/toy.h"

namespace embers {
namespace {

struct Sizes {
  int64_t examples, single, several, numeric, dim;
};

// The same in libtorch's operators.
SecondOrder by_libtorch(std::vector<torch::Tensor> parts, const torch::Tensor& numeric,
                        const torch::Tensor& factors) {
  for (torch::Tensor& part : parts)
    if (part.dim() == 2) part = part.unsqueeze(1);
  if (factors.defined()) parts.push_back(numeric.unsqueeze(2) * factors);
  const torch::Tensor fields = at::cat(parts, 1);
  return {fields, 0.5 * (fields.sum(1).square() - fields.square().sum(1)).sum(1, true)};
}

class SecondOrderTest : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
    const Sizes s = GetParam();
    for (int64_t i = 0; i < s.single; ++i) parts_.push_back(leaf({s.examples, s.dim}));
    if (s.several > 0) parts_.push_back(leaf({s.examples, s.several, s.dim}));
    if (s.numeric == 0) return;
    numeric_ = torch::randn({s.examples, s.numeric});
    factors_ = leaf({s.numeric, s.dim});
  }
  static torch::Tensor leaf(at::IntArrayRef shape) { return torch::randn(shape).set_requires_grad(true); }

  using Loss = std::function<torch::Tensor(const SecondOrder&)>;
  // Of all leaves, which may be undefined.
  std::vector<torch::Tensor> gradients(const SecondOrder& of, const Loss& loss) {
    loss(of).backward();
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& part : parts_) all.push_back(std::exchange(part.mutable_grad(), {}));
    if (factors_.defined()) all.push_back(std::exchange(factors_.mutable_grad(), {}));
    return all;
  }
  void expect_gradients_of(const Loss& loss) {
    const auto ours = gradients(second_order(parts_, numeric_, factors_), loss);
    const auto theirs = gradients(by_libtorch(parts_, numeric_, factors_), loss);
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-4, 1e-4)) << i;
  }

  std::vector<torch::Tensor> parts_;
  torch::Tensor numeric_, factors_;
};

TEST_P(SecondOrderTest, IsThatOfLibtorch) {
  const SecondOrder ours = second_order(parts_, numeric_, factors_),
                    theirs = by_libtorch(parts_, numeric_, factors_);
  EXPECT_TRUE(at::equal(ours.fields, theirs.fields));
  ASSERT_EQ(ours.sum.sizes(), theirs.sum.sizes());
  EXPECT_TRUE(at::allclose(ours.sum, theirs.sum, 1e-4, 1e-4));
}

TEST_P(SecondOrderTest, SoAreItsGradients) {
  const Sizes s = GetParam();
  const int64_t fields = s.single + s.several + s.numeric;
  const torch::Tensor of_fields = torch::randn({s.examples, fields, s.dim}),
                      of_sum = torch::randn({s.examples, 1});
  expect_gradients_of(
      [&](const SecondOrder& x) { return (x.fields * of_fields).sum() + (x.sum * of_sum).sum(); });
  expect_gradients_of([&](const SecondOrder& x) { return (x.fields * of_fields).sum(); });
  expect_gradients_of([&](const SecondOrder& x) { return (x.sum * of_sum).sum(); });
  expect_gradients_of([&](const SecondOrder& x) { return x.sum.sum(); });  // a gradient with stride 0
}

TEST_P(SecondOrderTest, HasTheSameBitsWithMoreThreads) {
  const int threads = at::get_num_threads();
  const auto run = [&] {
    const SecondOrder x = second_order(parts_, numeric_, factors_);
    std::vector<torch::Tensor> all =
        gradients(x, [](const SecondOrder& of) { return of.sum.square().sum(); });
    all.push_back(x.sum);
    return all;
  };
  at::set_num_threads(1);
  const auto one = run();
  at::set_num_threads(3);
  const auto three = run();
  at::set_num_threads(threads);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], three[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Sizes, SecondOrderTest,
                         testing::Values(Sizes{150, 26, 0, 13, 16}, Sizes{300, 1, 25, 13, 16},
                                         Sizes{3, 2, 0, 0, 1}, Sizes{2, 0, 3, 1, 4}, Sizes{65, 0, 0, 5, 7},
                                         Sizes{1, 1, 1, 1, 21}, Sizes{0, 2, 1, 2, 8}));

TEST(SecondOrder, AddsNothingToTheGradientOfFieldsAlone) {
  const torch::Tensor fields = torch::full({1, 2, 3}, INFINITY).set_requires_grad(true);
  second_order({fields}).fields.sum().backward();
  EXPECT_TRUE(at::equal(fields.grad(), torch::ones({1, 2, 3})));
}

TEST(SecondOrder, TakesTheSameTensorTwiceAndPartsOfOthers) {
  const torch::Tensor wide = torch::randn({6, 4, 3}).set_requires_grad(true), fixed = torch::randn({6, 3});
  const torch::Tensor half = wide.narrow(1, 1, 2);
  const auto gradient = [&](const SecondOrder& x) {
    (x.sum.sum() + x.fields.square().sum()).backward();
    return std::exchange(wide.mutable_grad(), {});
  };
  EXPECT_TRUE(at::allclose(gradient(second_order({half, fixed, half})),
                           gradient(by_libtorch({half, fixed, half}, {}, {})), 1e-4, 1e-4));
}

TEST(SecondOrder, RefusesFieldsThatDoNotFit) {
  const auto zeros = [](at::IntArrayRef shape) { return torch::zeros(shape); };
  toy::expect_invalid({"at least one"}, [&] { second_order({}); });
  toy::expect_invalid({"3 examples and 4 floats", "2 and 4"}, [&] {
    second_order({zeros({2, 4}), zeros({3, 4})});
  });
  toy::expect_invalid({"4 dimensions"}, [&] { second_order({zeros({2, 1, 1, 4})}); });
  toy::expect_invalid({"as many features"}, [&] {
    second_order({zeros({2, 4})}, zeros({2, 3}), zeros({2, 4}));
  });
  toy::expect_invalid({"differ"}, [&] { second_order({zeros({2, 4})}, zeros({5, 3}), zeros({3, 4})); });
}

}  // namespace
}  // namespace embers
