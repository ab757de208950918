#include "model/lookup/combine_all.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/errors.h"
#include "base/stage_times.h"

namespace embers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass needs, beside the gradients.
struct Calls : torch::CustomClassHolder {
  std::vector<CombinePart> parts;
  std::weak_ptr<CombinePass> pass;
  std::vector<std::vector<int64_t>> shapes;  // of the BETs
};

std::span<const float> floats(const torch::Tensor& t) {
  return {t.data_ptr<float>(), static_cast<size_t>(t.numel())};
}
std::span<float> mutable_floats(const torch::Tensor& t) {
  return {t.data_ptr<float>(), static_cast<size_t>(t.numel())};
}

void for_each(size_t count, const std::function<void(size_t)>& work) {
  at::parallel_for(0, static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) work(static_cast<size_t>(i));
  });
}

struct CombineFunction : torch::autograd::Function<CombineFunction> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<Calls>& calls,
                               at::TensorList bets) {
    StopWatch watch;
    context->saved_data["calls"] = c10::IValue::make_capsule(calls);
    context->set_materialize_grads(false);
    variable_list out;
    for (const CombinePart& part : calls->parts)
      out.push_back(torch::empty({combined_rows(part.combiner, part.ids), bets[part.bet].size(1)}));
    for_each(out.size(), [&](size_t i) {
      const CombinePart& part = calls->parts[i];
      combine(part.combiner, part.ids, static_cast<size_t>(out[i].size(1)), floats(bets[part.bet]),
              mutable_floats(out[i]));
    });
    if (const auto pass = calls->pass.lock()) pass->seconds += watch.lap();
    return out;
  }

  // A BET none of whose parts has a gradient gets none.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    StopWatch watch;
    const auto calls = c10::static_intrusive_pointer_cast<Calls>(context->saved_data["calls"].toCapsule());
    const std::shared_ptr<CombinePass> pass = calls->pass.lock();
    if (!pass)
      fail(ErrorCode::kInvalid,
           "a loss goes back to an embedding of an earlier minibatch: detach() what a model keeps");
    variable_list result(1 + calls->shapes.size()), of_parts;
    for (const torch::Tensor& gradient : gradients)
      of_parts.push_back(gradient.defined() ? gradient.contiguous() : gradient);
    for (size_t i = 0; i < of_parts.size(); ++i)
      if (torch::Tensor& bet = result[1 + calls->parts[i].bet]; of_parts[i].defined() && !bet.defined())
        bet = torch::zeros(calls->shapes[calls->parts[i].bet]);
    for_each(calls->shapes.size(), [&](size_t bet) {
      for (size_t i = 0; i < of_parts.size(); ++i) {
        const CombinePart& part = calls->parts[i];
        if (part.bet != bet || !of_parts[i].defined()) continue;
        add_combine_gradient(part.combiner, part.ids, static_cast<size_t>(calls->shapes[bet][1]),
                             floats(of_parts[i]), mutable_floats(result[1 + bet]));
      }
    });
    pass->seconds += watch.lap();
    return result;
  }
};

}  // namespace

std::vector<torch::Tensor> combine_all(const std::vector<torch::Tensor>& bets, std::vector<CombinePart> parts,
                                       std::weak_ptr<CombinePass> pass) {
  if (parts.empty()) return {};
  auto calls = c10::make_intrusive<Calls>();
  calls->parts = std::move(parts);
  calls->pass = std::move(pass);
  std::vector<torch::Tensor> contiguous;
  for (const torch::Tensor& bet : bets) {
    contiguous.push_back(bet.contiguous());
    calls->shapes.push_back(bet.sizes().vec());
  }
  return CombineFunction::apply(calls, at::TensorList(contiguous));
}

}  // namespace embers
