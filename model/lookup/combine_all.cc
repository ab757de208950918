#include "model/lookup/combine_all.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/errors.h"
#include "base/floats/prefetch.h"
#include "base/stage_times.h"
#include "model/lookup/once_differentiable.h"

namespace embers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass needs, beside the gradients.
struct Calls : torch::CustomClassHolder {
  std::optional<Combination> combination;
  std::weak_ptr<CombinePass> pass;
  std::vector<std::vector<int64_t>> shapes;  // of the BETs
  std::vector<size_t> weighted;              // calls whose weights have a gradient
};

std::span<const float> floats(const torch::Tensor& t) {
  return {t.data_ptr<float>(), static_cast<size_t>(t.numel())};
}

void for_each(size_t count, const std::function<void(size_t)>& work) {
  at::parallel_for(0, static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) work(static_cast<size_t>(i));
  });
}

torch::Tensor tensor_in(const std::shared_ptr<FloatBuffer>& buffer, size_t offset, at::IntArrayRef shape) {
  return torch::from_blob(
      buffer->data() + offset, shape, [buffer](void*) {}, torch::kFloat);
}

// A result for each call, each with memory of its own in one buffer.
variable_list results(const Calls& calls, CombineMemory& memory) {
  const std::vector<CombineCall>& all = calls.combination->calls();
  std::vector<size_t> begin{0};
  for (const CombineCall& call : all) {
    const auto size = static_cast<size_t>(combined_rows(call) * calls.shapes[call.bet][1]);
    begin.push_back(begin.back() + (size + kLineFloats - 1) / kLineFloats * kLineFloats);
  }
  const std::shared_ptr<FloatBuffer> buffer = memory.share(memory.take(begin.back()));
  variable_list out;
  for (size_t i = 0; i < all.size(); ++i)
    out.push_back(tensor_in(buffer, begin[i], {combined_rows(all[i]), calls.shapes[all[i].bet][1]}));
  return out;
}

// A gradient as its rows lie, often columns of a wider matrix; one whose numbers have gaps becomes a copy.
OutGradient rows_of(torch::Tensor& gradient) {
  if (!gradient.defined()) return {{}, 0};
  if (gradient.size(1) > 1 && gradient.stride(1) != 1) gradient = gradient.contiguous();
  const int64_t rows = gradient.size(0), dim = gradient.size(1);
  if (rows == 0) return {{}, 0};
  return {{gradient.data_ptr<float>(), static_cast<size_t>((rows - 1) * gradient.stride(0) + dim)},
          gradient.stride(0)};
}

struct CombineFunction : torch::autograd::Function<CombineFunction> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<Calls>& calls,
                               at::TensorList /*bets and weights: for autograd*/) {
    StopWatch watch;
    context->saved_data["calls"] = c10::IValue::make_capsule(calls);
    context->set_materialize_grads(false);
    const std::shared_ptr<CombinePass> pass = calls->pass.lock();
    variable_list out = results(*calls, pass->memory);
    std::vector<std::span<float>> spans;
    for (const torch::Tensor& t : out)
      spans.emplace_back(t.data_ptr<float>(), static_cast<size_t>(t.numel()));
    calls->combination->forward(spans, for_each);
    pass->seconds += watch.lap();
    return out;
  }

  // A BET none of whose calls has a gradient gets none.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    StopWatch watch;
    const auto calls = c10::static_intrusive_pointer_cast<Calls>(context->saved_data["calls"].toCapsule());
    const std::shared_ptr<CombinePass> pass = calls->pass.lock();
    if (!pass)
      fail(ErrorCode::kInvalid,
           "a loss depends on an embedding of an earlier minibatch: detach() what a model keeps");
    const std::vector<CombineCall>& all = calls->combination->calls();
    variable_list result(1 + calls->shapes.size() + calls->weighted.size());
    std::vector<OutGradient> of_calls;
    std::vector<std::shared_ptr<FloatBuffer>> of_bets(calls->shapes.size());
    for (size_t i = 0; i < all.size(); ++i) {
      of_calls.push_back(rows_of(gradients[i]));
      std::shared_ptr<FloatBuffer>& buffer = of_bets[all[i].bet];
      if (!gradients[i].defined() || buffer) continue;
      const std::vector<int64_t>& shape = calls->shapes[all[i].bet];
      buffer = pass->memory.share(pass->memory.take(static_cast<size_t>(shape[0] * shape[1])));
      result[1 + all[i].bet] = tensor_in(buffer, 0, shape);
      pass->gradients.push_back(buffer);
    }
    for_each(of_bets.size(), [&](size_t bet) {
      if (of_bets[bet]) calls->combination->gradient(bet, of_calls, of_bets[bet]->span());
    });
    for (size_t w = 0; w < calls->weighted.size(); ++w)
      if (const size_t call = calls->weighted[w]; gradients[call].defined())
        result[1 + calls->shapes.size() + w] = gradient_of_weights(*calls, call, gradients[call]);
    pass->seconds += watch.lap();
    return once_differentiable("an embedding", std::move(result));
  }

 private:
  static torch::Tensor gradient_of_weights(const Calls& calls, size_t call, const torch::Tensor& gradient) {
    const auto weights = static_cast<int64_t>(calls.combination->calls()[call].ids.weights.size());
    torch::Tensor result = torch::empty({weights});
    calls.combination->weight_gradient(call, floats(gradient.contiguous()),
                                       {result.data_ptr<float>(), static_cast<size_t>(weights)});
    return result;
  }
};

}  // namespace

std::vector<torch::Tensor> combine_all(const std::vector<torch::Tensor>& bets, std::vector<CombineCall> parts,
                                       const std::shared_ptr<CombinePass>& pass,
                                       const std::vector<torch::Tensor>& weights,
                                       const std::vector<bool>& may_overwrite) {
  if (parts.empty()) return {};
  auto calls = c10::make_intrusive<Calls>();
  calls->pass = pass;
  std::vector<Combination::Bet> rows;
  std::vector<torch::Tensor> inputs = bets;
  for (size_t i = 0; i < bets.size(); ++i) {
    const torch::Tensor& bet = bets[i];
    const bool overwrites = !may_overwrite.empty() && may_overwrite[i];
    rows.push_back({floats(bet), bet.size(1), overwrites ? bet.data_ptr<float>() : nullptr});
    calls->shapes.push_back(bet.sizes().vec());
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!weights[i].defined() || !weights[i].requires_grad()) continue;
    calls->weighted.push_back(i);
    inputs.push_back(weights[i]);
  }
  calls->combination.emplace(rows, std::move(parts), pass->memory);
  return CombineFunction::apply(calls, at::TensorList(inputs));
}

FloatBuffer take_gradient(const torch::Tensor& gradient, CombinePass& pass) {
  for (const std::shared_ptr<FloatBuffer>& buffer : pass.gradients)
    if (buffer->data() == gradient.data_ptr<float>() && gradient.is_contiguous() &&
        static_cast<size_t>(gradient.numel()) == buffer->size())
      return std::move(*buffer);
  const torch::Tensor values = gradient.contiguous();
  FloatBuffer copy(static_cast<size_t>(values.numel()));
  std::copy_n(values.data_ptr<float>(), copy.size(), copy.data());
  return copy;
}

}  // namespace embers
