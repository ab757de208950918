#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

// row -= rate * grad
void sgd_row(size_t n, float* __restrict row, const float* __restrict grad, float rate) {
  for (size_t i = 0; i < n; ++i) row[i] -= rate * grad[i];
}

// buffer = momentum * buffer + grad;  row -= rate * buffer
void momentum_row(size_t n, float* __restrict row, float* __restrict buffer, const float* __restrict grad,
                  float rate, float momentum) {
  for (size_t i = 0; i < n; ++i) {
    buffer[i] = momentum * buffer[i] + grad[i];
    row[i] -= rate * buffer[i];
  }
}

// buffer = momentum * buffer + grad;  row -= rate * (grad + momentum * buffer)
void nesterov_row(size_t n, float* __restrict row, float* __restrict buffer, const float* __restrict grad,
                  float rate, float momentum) {
  for (size_t i = 0; i < n; ++i) {
    buffer[i] = momentum * buffer[i] + grad[i];
    row[i] -= rate * (grad[i] + momentum * buffer[i]);
  }
}

std::vector<UpdateRule::Slot> slots(const Params& p) {
  if (p.at("momentum") == 0) return {};
  return {{"momentum", 0}};
}

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const auto rate = static_cast<float>(step.learning_rate);
  const auto momentum = static_cast<float>(p.at("momentum"));
  if (p.at("momentum") == 0)
    return row_kernel({},
                      [=](size_t n, float* row, float*, const float* grad) { sgd_row(n, row, grad, rate); });
  const auto update = p.at("nesterov") != 0 ? nesterov_row : momentum_row;
  return row_kernel({1}, [=](size_t n, float* row, float* buffer, const float* grad) {
    update(n, row, buffer, grad, rate, momentum);
  });
}

}  // namespace

// torch.optim.SGD without dampening. Nesterov without momentum is plain SGD.
UpdateFormula sgd() {
  return {"sgd",
          {{"learning_rate", 0.01}, {"momentum", 0}, {"nesterov", 0}, {"weight_decay", 0}},
          WeightDecay::kCoupled,
          slots,
          kernel};
}

}  // namespace embers::storage
