#include <algorithm>
#include <cmath>

#include "storage/update_rules/update_formula.h"

namespace embers::storage {
namespace {

struct Factors {
  float rate, one_minus_rho, momentum, epsilon;
};

// square += (grad^2 - square)(1 - rho)
// centered: mean += (grad - mean)(1 - rho);  change = grad / (sqrt(square - mean^2) + epsilon)
// else:     change = grad / (sqrt(square) + epsilon)
// momentum: buffer = momentum * buffer + change;  row -= rate * buffer
// else:     row -= rate * change
template <bool kCentered, bool kMomentum>
void rmsprop_row(size_t n, float* __restrict row, float* __restrict square, float* __restrict mean,
                 float* __restrict buffer, const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    square[i] += (grad[i] * grad[i] - square[i]) * f.one_minus_rho;
    float variance = square[i];
    if constexpr (kCentered) {
      mean[i] += (grad[i] - mean[i]) * f.one_minus_rho;
      variance = std::max(square[i] - mean[i] * mean[i], 0.0f);  // rounding may take it below 0
    }
    const float change = grad[i] / (std::sqrt(variance) + f.epsilon);
    if constexpr (kMomentum) {
      buffer[i] = f.momentum * buffer[i] + change;
      row[i] -= f.rate * buffer[i];
    } else {
      row[i] -= f.rate * change;
    }
  }
}

std::vector<UpdateRule::Slot> slots(const Params& p) {
  std::vector<UpdateRule::Slot> slots{{"velocity", 0}};
  if (p.at("centered") != 0) slots.push_back({"average_gradient", 0});
  if (p.at("momentum") != 0) slots.push_back({"momentum", 0});
  return slots;
}

template <bool kCentered, bool kMomentum>
UpdateKernel kernel_of(Factors f) {
  return row_kernel({1 + kCentered + kMomentum}, [f](size_t n, float* row, float* slots, const float* grad) {
    float* const mean = kCentered ? slots + n : nullptr;
    float* const buffer = kMomentum ? slots + (1 + kCentered) * n : nullptr;
    rmsprop_row<kCentered, kMomentum>(n, row, slots, mean, buffer, grad, f);
  });
}

UpdateKernel kernel(const Params& p, const UpdateRule::Step& step) {
  const Factors f{static_cast<float>(step.learning_rate), static_cast<float>(1 - p.at("rho")),
                  static_cast<float>(p.at("momentum")), static_cast<float>(p.at("epsilon"))};
  const bool momentum = p.at("momentum") != 0;
  if (p.at("centered") != 0) return momentum ? kernel_of<true, true>(f) : kernel_of<true, false>(f);
  return momentum ? kernel_of<false, true>(f) : kernel_of<false, false>(f);
}

}  // namespace

// torch.optim.RMSprop; rho is its alpha.
UpdateFormula rmsprop() {
  return {"rmsprop",
          {{"learning_rate", 0.001},
           {"rho", 0.9},
           {"momentum", 0},
           {"epsilon", 1e-7},
           {"centered", 0},
           {"weight_decay", 0}},
          WeightDecay::kCoupled,
          slots,
          kernel};
}

}  // namespace embers::storage
