#include "model/layers/pair_products.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

namespace embers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 64;  // examples that are worth a thread

struct Shape {
  explicit Shape(const torch::Tensor& t) : examples(t.size(0)), fields(t.size(1)), dim(t.size(2)) {}
  int64_t pairs() const { return fields * (fields - 1) / 2; }
  int64_t examples, fields, dim;
};

// x [F, D], transposed: scratch [D, F] -> out [pairs]. Loops run along neighbours in memory, so they become
// vector instructions without adding up in another order.
void products(const Shape& s, const float* x, float* transposed, float* out) {
  for (int64_t f = 0; f < s.fields; ++f)
    for (int64_t d = 0; d < s.dim; ++d) transposed[d * s.fields + f] = x[f * s.dim + d];
  for (int64_t i = 1; i < s.fields; out += i, ++i) {
    std::fill_n(out, i, 0.0f);
    for (int64_t d = 0; d < s.dim; ++d) {
      const float factor = x[i * s.dim + d];
      const float* const row = transposed + d * s.fields;
      for (int64_t j = 0; j < i; ++j) out[j] += factor * row[j];
    }
  }
}

void add_scaled(const float* __restrict from, float scale, int64_t dim, float* __restrict to) {
  for (int64_t d = 0; d < dim; ++d) to[d] += scale * from[d];
}

// gradient [pairs], x [F, D] -> out [F, D]
void products_gradient(const Shape& s, const float* gradient, const float* x, float* out) {
  std::fill_n(out, s.fields * s.dim, 0.0f);
  for (int64_t i = 1; i < s.fields; ++i)
    for (int64_t j = 0; j < i; ++j, ++gradient) {
      add_scaled(x + j * s.dim, *gradient, s.dim, out + i * s.dim);
      add_scaled(x + i * s.dim, *gradient, s.dim, out + j * s.dim);
    }
}

struct PairProducts : torch::autograd::Function<PairProducts> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& fields) {
    const torch::Tensor x = fields.contiguous();
    context->save_for_backward({x});
    const Shape s(x);
    const torch::Tensor out = torch::empty({s.examples, s.pairs()});
    const float* const from = x.data_ptr<float>();
    float* const to = out.data_ptr<float>();
    at::parallel_for(0, s.examples, kGrain, [&](int64_t begin, int64_t end) {
      std::vector<float> transposed(static_cast<size_t>(s.fields * s.dim));
      for (int64_t e = begin; e < end; ++e)
        products(s, from + e * s.fields * s.dim, transposed.data(), to + e * s.pairs());
    });
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor x = context->get_saved_variables().front(), gradient = gradients.front().contiguous();
    const Shape s(x);
    const torch::Tensor out = torch::empty_like(x);
    const float* const from = x.data_ptr<float>();
    const float* const products = gradient.data_ptr<float>();
    float* const to = out.data_ptr<float>();
    at::parallel_for(0, s.examples, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t e = begin; e < end; ++e)
        products_gradient(s, products + e * s.pairs(), from + e * s.fields * s.dim,
                          to + e * s.fields * s.dim);
    });
    return {out};
  }
};

}  // namespace

torch::Tensor pair_products(const torch::Tensor& fields) { return PairProducts::apply(fields); }

}  // namespace embers
