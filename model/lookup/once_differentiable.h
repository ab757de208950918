#pragma once

#include <torch/csrc/autograd/variable.h>

#include <string_view>

namespace embers {

// What an operator's backward() has computed. To differentiate it again (create_graph) is an error that names
// the operator: libtorch does not know what these gradients depend on, and would take them for constants.
// As Python's torch.autograd.function.once_differentiable, which overlooks it where the gradients given to
// backward() depend on nothing.
torch::autograd::variable_list once_differentiable(std::string_view what,
                                                   torch::autograd::variable_list gradients);

}  // namespace embers
