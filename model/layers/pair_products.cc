#include "model/layers/pair_products.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "model/lookup/kernels/pair_product_kernels.h"

namespace embers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 64;  // examples that are worth a thread

FieldsShape shape_of(const torch::Tensor& fields) { return {fields.size(1), fields.size(2)}; }

template <class Float>
std::vector<FieldRows<Float>> rows_of(const torch::Tensor& fields) {
  std::vector<FieldRows<Float>> rows;
  for (int64_t f = 0; f < fields.size(1); ++f)
    rows.push_back({fields.data_ptr<float>() + f * fields.stride(1), fields.stride(0)});
  return rows;
}

struct PairProducts : torch::autograd::Function<PairProducts> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& fields) {
    const torch::Tensor x = fields.contiguous();
    context->save_for_backward({x});
    const FieldsShape s = shape_of(x);
    const torch::Tensor out = torch::empty({x.size(0), s.pairs()});
    const auto from = rows_of<const float>(x);
    float* const to = out.data_ptr<float>();
    at::parallel_for(0, x.size(0), kGrain,
                     [&](int64_t begin, int64_t end) { embers::pair_products(s, begin, end, from, to); });
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor x = context->get_saved_variables().front(), gradient = gradients.front().contiguous();
    const FieldsShape s = shape_of(x);
    const torch::Tensor out = torch::empty_like(x);
    const auto from = rows_of<const float>(x);
    const auto to = rows_of<float>(out);
    const float* const products = gradient.data_ptr<float>();
    at::parallel_for(0, x.size(0), kGrain, [&](int64_t begin, int64_t end) {
      pair_products_gradient(s, begin, end, products, from, to);
    });
    return {out};
  }
};

}  // namespace

torch::Tensor pair_products(const torch::Tensor& fields) { return PairProducts::apply(fields); }

}  // namespace embers
