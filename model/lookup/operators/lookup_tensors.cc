#include "model/lookup/operators/lookup_tensors.h"

#include <torch/csrc/autograd/custom_function.h>

#include <memory>

#include "base/errors.h"
#include "model/lookup/coordinates.h"
#include "model/lookup/once_differentiable.h"
#include "model/lookup/operators/lookup_operators.h"
#include "model/lookup/weight_gradient.h"

namespace embers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
std::span<const T> view(const torch::Tensor& t) {
  return {t.data_ptr<T>(), static_cast<size_t>(t.numel())};
}

// A call from its forward to its backward pass; owns what the pass refers to.
struct Call : torch::CustomClassHolder {
  std::vector<torch::Tensor> params;  // detached
  std::optional<LocalTable> table;
  torch::Tensor values, weights;
  std::vector<int64_t> offsets;
  LookupOptions options;
  std::vector<int64_t> shape;  // of the result
  LookupPass pass;

  SparseIds ids() const {
    SparseIds ids;
    if (values.scalar_type() == torch::kInt) {
      ids.ids = view<int32_t>(values);
    } else {
      ids.ids = view<int64_t>(values);
    }
    ids.offsets = offsets;
    if (weights.defined()) ids.weights = view<float>(weights);
    return ids;
  }
};

void check_params(const std::vector<torch::Tensor>& params) {
  if (params.empty()) fail(ErrorCode::kInvalid, "params has no partitions: give at least one");
  for (size_t p = 0; p < params.size(); ++p) {
    const torch::Tensor& t = params[p];
    if (!t.defined() || t.dim() != 2 || t.scalar_type() != torch::kFloat || !t.is_contiguous() || !t.is_cpu())
      fail(ErrorCode::kInvalid, "params[{}] must be a contiguous float32 tensor of rows x dim on the CPU", p);
    if (t.size(1) != params.front().size(1))
      fail(ErrorCode::kInvalid, "params[{}] has dim {}, params[0] has dim {}", p, t.size(1),
           params.front().size(1));
  }
}

torch::Tensor checked_ids(const torch::Tensor& ids) {
  if (!ids.defined() || (ids.scalar_type() != torch::kLong && ids.scalar_type() != torch::kInt))
    fail(ErrorCode::kInvalid, "ids must be a tensor of int64 or int32");
  return ids.contiguous();
}

c10::intrusive_ptr<Call> start(const TableTensors& table, const torch::Tensor& ids,
                               const LookupOptions& options) {
  check_params(table.params);
  auto call = c10::make_intrusive<Call>();
  std::vector<std::span<const float>> partitions;
  for (const torch::Tensor& t : table.params) {
    call->params.push_back(t.detach());
    partitions.push_back(view<float>(call->params.back()));
  }
  call->table.emplace(partitions, table.params.front().size(1), table.strategy, table.blocknums);
  call->values = checked_ids(ids);
  call->options = options;
  return call;
}

torch::Tensor sparse_gradient(const RowGradients& gradients, size_t p, const torch::Tensor& param) {
  const auto begin = static_cast<int64_t>(gradients.part_begin[p]);
  const auto rows = static_cast<int64_t>(gradients.part_begin[p + 1]) - begin;
  torch::Tensor indices = torch::empty({1, rows}, torch::kLong);
  torch::Tensor values = torch::empty({rows, gradients.dim});
  std::copy_n(gradients.rows.begin() + begin, rows, indices.data_ptr<int64_t>());
  std::copy_n(gradients.values.begin() + begin * gradients.dim, rows * gradients.dim,
              values.data_ptr<float>());
  return torch::_sparse_coo_tensor_unsafe(indices, values, param.sizes())._coalesced_(true);
}

// One for each thread, so that its memory is used again from call to call.
LookupWorkspace& workspace() {
  static thread_local LookupWorkspace mine;
  return mine;
}

torch::Tensor gradient_of_weights(const Call& call, const torch::Tensor& out_gradient) {
  torch::Tensor gradient = torch::empty_like(call.weights);
  weight_gradient(call.pass, call.ids(), call.options, view<float>(out_gradient),
                  {gradient.data_ptr<float>(), static_cast<size_t>(gradient.numel())});
  return gradient;
}

struct LookupFunction : torch::autograd::Function<LookupFunction> {
  // `inputs`, the call's params and, if they have a gradient, its weights, are only there for autograd.
  static torch::Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Call>& call,
                               at::TensorList inputs) {
    context->saved_data["weights"] = inputs.size() > call->params.size();
    torch::Tensor out = torch::empty(call->shape);
    fused_embedding_lookup_sparse(*call->table, call->ids(), call->options, call->pass, workspace(),
                                  {out.data_ptr<float>(), static_cast<size_t>(out.numel())});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list out_gradients) {
    const auto call = c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    const torch::Tensor gradient = out_gradients[0].contiguous();
    const RowGradients gradients = lookup_gradient(call->pass, view<float>(gradient), workspace());
    variable_list result{torch::Tensor()};
    for (size_t p = 0; p < call->params.size(); ++p)
      result.push_back(sparse_gradient(gradients, p, call->params[p]));
    if (context->saved_data["weights"].toBool()) result.push_back(gradient_of_weights(*call, gradient));
    return once_differentiable("a lookup", std::move(result));
  }
};

}  // namespace

std::vector<int64_t> bag_offsets(const SparseIdTensors& ids) {
  if (!ids.indices.defined() || ids.indices.scalar_type() != torch::kLong || ids.indices.dim() != 2 ||
      ids.indices.size(1) != static_cast<int64_t>(ids.dense_shape.size()) ||
      ids.indices.size(0) != ids.values.numel())
    fail(ErrorCode::kInvalid, "indices must be an int64 tensor of {} ids x {} dimensions", ids.values.numel(),
         ids.dense_shape.size());
  const torch::Tensor indices = ids.indices.contiguous();
  return bag_offsets(view<int64_t>(indices), ids.dense_shape);
}

torch::Tensor embedding_lookup(const TableTensors& table, const torch::Tensor& ids,
                               std::optional<float> max_norm) {
  const auto call = start(table, ids, {Combiner::kSum, max_norm, {}, false});
  for (int64_t i = 0; i <= ids.numel(); ++i) call->offsets.push_back(i);
  call->shape = ids.sizes().vec();
  call->shape.push_back(call->table->dim());
  return LookupFunction::apply(call, at::TensorList(table.params));
}

torch::Tensor embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                      Combiner combiner, std::optional<float> max_norm) {
  return fused_embedding_lookup_sparse(table, ids, {combiner, max_norm, {}, false});
}

torch::Tensor safe_embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                           const LookupOptions& options) {
  return fused_safe_embedding_lookup_sparse(table, ids, options);
}

torch::Tensor fused_embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                            const LookupOptions& options) {
  const auto call = start(table, ids.values, options);
  std::vector<torch::Tensor> inputs = table.params;
  if (ids.weights.defined()) {
    if (ids.weights.scalar_type() != torch::kFloat)
      fail(ErrorCode::kInvalid, "weights must be a float32 tensor");
    call->weights = ids.weights.detach().contiguous();
    if (ids.weights.requires_grad()) inputs.push_back(ids.weights);
  }
  call->offsets = bag_offsets(ids);
  call->shape = ids.dense_shape;
  call->shape.back() = call->table->dim();
  return LookupFunction::apply(call, at::TensorList(inputs));
}

torch::Tensor fused_safe_embedding_lookup_sparse(const TableTensors& table, const SparseIdTensors& ids,
                                                 const LookupOptions& options) {
  LookupOptions safe = options;
  safe.prune_invalid_ids = options.prune_invalid_ids.value_or(true);
  return fused_embedding_lookup_sparse(table, ids, safe);
}

}  // namespace embers
