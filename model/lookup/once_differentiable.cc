#include "model/lookup/once_differentiable.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <memory>

namespace embers {

torch::autograd::variable_list once_differentiable(std::string_view what,
                                                   torch::autograd::variable_list gradients) {
  if (!at::GradMode::is_enabled()) return gradients;
  for (torch::Tensor& gradient : gradients)
    if (gradient.defined()) gradient = gradient.detach().set_requires_grad(true);
  const auto barrier = std::make_shared<torch::autograd::DelayedError>(
      fmt::format("{} can be differentiated once, not twice", what), static_cast<int>(gradients.size()));
  return (*barrier)(std::move(gradients));
}

}  // namespace embers
