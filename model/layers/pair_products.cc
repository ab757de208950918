#include "model/layers/pair_products.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/errors.h"
#include "model/layers/field_rows.h"
#include "model/lookup/once_differentiable.h"

namespace embers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PairProducts : torch::autograd::Function<PairProducts> {
  // inputs: the parts, then what stands beside the products, if it has columns.
  static torch::Tensor forward(AutogradContext* context, int64_t before, at::TensorList inputs) {
    const size_t parts = inputs.size() - (before > 0 ? 1 : 0);
    const FieldParts x(inputs.slice(0, parts));
    FieldsShape s = x.shape();
    s.before = before;
    context->save_for_backward(x.tensors());
    context->saved_data["before"] = before;
    torch::Tensor out = torch::empty({x.examples(), s.width()});
    if (before > 0) out.narrow(1, 0, before).copy_(inputs.back());
    const auto from = x.rows();
    float* const to = out.data_ptr<float>();
    at::parallel_for(0, x.examples(), kExamplesPerThread,
                     [&](int64_t begin, int64_t end) { embers::pair_products(s, begin, end, from, to); });
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor gradient = gradients.front().contiguous();
    const variable_list saved = context->get_saved_variables();
    const FieldParts x{at::TensorList(saved)};
    FieldsShape s = x.shape();
    s.before = context->saved_data["before"].toInt();
    const torch::Tensor out = torch::empty({x.examples(), s.fields, s.dim});
    const auto from = x.rows();
    std::vector<FieldRows<float>> to;
    for (int64_t f = 0; f < s.fields; ++f)
      to.push_back({out.data_ptr<float>() + f * s.dim, s.fields * s.dim});
    const float* const products = gradient.data_ptr<float>();
    at::parallel_for(0, x.examples(), kExamplesPerThread, [&](int64_t begin, int64_t end) {
      pair_products_gradient(s, begin, end, products, from, to);
    });
    variable_list result(1);  // the number of columns before has none
    for (torch::Tensor& part : parts_of(out, x.counts())) result.push_back(std::move(part));
    if (s.before > 0) result.push_back(gradient.narrow(1, 0, s.before));
    return once_differentiable("pair_products", std::move(result));
  }
};

}  // namespace

torch::Tensor pair_products(const std::vector<torch::Tensor>& parts, const torch::Tensor& beside) {
  std::vector<torch::Tensor> inputs = parts;
  if (beside.defined()) {
    if (parts.empty() || parts.front().dim() == 0 || beside.dim() != 2 ||
        beside.size(0) != parts.front().size(0))
      fail(ErrorCode::kInvalid, "what stands beside products of pairs must be [N, K], for as many examples");
    if (beside.size(1) > 0) inputs.push_back(beside);
  }
  return PairProducts::apply(beside.defined() ? beside.size(1) : int64_t{0}, at::TensorList(inputs));
}

}  // namespace embers
