#include "model/layers/second_order.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>

#include "base/errors.h"
#include "model/layers/field_rows.h"
#include "model/lookup/kernels/second_order_kernels.h"
#include "model/lookup/once_differentiable.h"

namespace embers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// In order, whatever the number of threads.
torch::Tensor sum_of(const torch::Tensor& grains) {
  torch::Tensor sum = torch::zeros({grains.size(1), grains.size(2)});
  float* const to = sum.data_ptr<float>();
  const float* from = grains.data_ptr<float>();
  for (int64_t g = 0; g < grains.size(0); ++g, from += sum.numel())
    std::transform(from, from + sum.numel(), to, to, std::plus<>());
  return sum;
}

struct SecondOrderFunction : torch::autograd::Function<SecondOrderFunction> {
  // inputs: the parts, then numbers and factors if there are any.
  static variable_list forward(AutogradContext* context, int64_t parts, at::TensorList inputs) {
    const auto count = static_cast<size_t>(parts);
    const FieldParts x(inputs.slice(0, count));
    torch::Tensor values, factors;
    NumericFields numbers;
    if (inputs.size() > count) {
      values = inputs[count].contiguous();
      factors = inputs[count + 1].contiguous();
      numbers = {factors.size(0), values.data_ptr<float>(), factors.data_ptr<float>()};
    }
    const torch::Tensor fields =
                            torch::empty({x.examples(), x.shape().fields + numbers.count, x.shape().dim}),
                        sums = torch::empty({x.examples(), x.shape().dim}),
                        second = torch::empty({x.examples(), 1});
    const auto rows = x.rows();
    at::parallel_for(0, x.examples(), kExamplesPerThread, [&](int64_t begin, int64_t end) {
      second_order(x.shape(), begin, end, rows, numbers, fields.data_ptr<float>(), sums.data_ptr<float>(),
                   second.data_ptr<float>());
    });
    context->set_materialize_grads(false);
    context->save_for_backward({fields, sums, values});
    context->saved_data["counts"] = x.counts();
    return {fields, second};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor &fields = saved[0], &sums = saved[1];
    NumericFields numbers;
    if (saved[2].defined()) numbers = {saved[2].size(1), saved[2].data_ptr<float>()};
    const int64_t examples = fields.size(0), dim = fields.size(2);
    const FieldsShape shape{fields.size(1) - numbers.count, dim};
    SecondOrderGradients given{nullptr, nullptr, 0};
    if (gradients[0].defined()) {
      gradients[0] = gradients[0].contiguous();
      given.fields = gradients[0].data_ptr<float>();
    }
    if (gradients[1].defined()) {
      given.second = gradients[1].data_ptr<float>();
      given.stride = gradients[1].stride(0);
    }
    const torch::Tensor out = torch::empty_like(fields);
    // Sums over the examples of a grain, then over grains, whichever thread has them.
    const int64_t grains = (examples + kExamplesPerThread - 1) / kExamplesPerThread;
    const torch::Tensor of_factors = torch::zeros({grains, numbers.count, dim});
    at::parallel_for(0, grains, 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g)
        second_order_gradient(shape, g * kExamplesPerThread, std::min(examples, (g + 1) * kExamplesPerThread),
                              given, fields.data_ptr<float>(), sums.data_ptr<float>(), numbers,
                              out.data_ptr<float>(), of_factors.data_ptr<float>() + g * numbers.count * dim);
    });
    variable_list result(1);  // the number of parts has none
    for (torch::Tensor& part : parts_of(out, context->saved_data["counts"].toIntVector()))
      result.push_back(std::move(part));
    if (saved[2].defined()) {
      result.emplace_back();  // of the numbers
      result.push_back(sum_of(of_factors));
    }
    return once_differentiable("second_order", std::move(result));
  }
};

}  // namespace

SecondOrder second_order(const std::vector<torch::Tensor>& parts, const torch::Tensor& numeric,
                         const torch::Tensor& factors) {
  std::vector<torch::Tensor> inputs = parts;
  if (factors.defined()) {
    if (!numeric.defined() || numeric.dim() != 2 || factors.dim() != 2 || factors.size(0) != numeric.size(1))
      fail(ErrorCode::kInvalid, "numeric features [N, K] need factors [K, D], for as many features");
    if (parts.empty()) inputs.push_back(torch::empty({numeric.size(0), 0, factors.size(1)}));
    const torch::Tensor& first = inputs.front();
    const bool fits =
        first.dim() > 1 && first.size(0) == numeric.size(0) && first.size(-1) == factors.size(1);
    if (!fits) fail(ErrorCode::kInvalid, "numeric features and other fields differ in examples or floats");
  }
  const auto count = static_cast<int64_t>(inputs.size());
  if (factors.defined()) inputs.insert(inputs.end(), {numeric, factors});
  const variable_list out = SecondOrderFunction::apply(count, at::TensorList(inputs));
  return {out[0], out[1]};
}

}  // namespace embers
