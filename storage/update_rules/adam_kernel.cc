#include "storage/update_rules/adam_kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/floats/instruction_sets.h"
#include "base/floats/prefetch.h"

namespace embers::storage {
namespace {

// m += (grad - m)(1 - beta_1);  v += (grad^2 - v)(1 - beta_2);  row -= rate * m / (sqrt(v) + epsilon)
// where rate includes the bias correction.
struct Factors {
  float one_minus_beta_1, one_minus_beta_2, epsilon, rate;
};
EMBERS_INLINE void moments(float& m, float& v, float grad, const Factors& f) {
  m += (grad - m) * f.one_minus_beta_1;
  v += (grad * grad - v) * f.one_minus_beta_2;
}
EMBERS_INLINE void move(float& row, float m, float v, const Factors& f) {
  row -= f.rate * m / (std::sqrt(v) + f.epsilon);
}

EMBERS_INSTRUCTION_SETS void adam_row(size_t n, float* __restrict row, float* __restrict m,
                                      float* __restrict v, const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    moments(m[i], v[i], grad[i], f);
    move(row[i], m[i], v[i], f);
  }
}

// The same with the greatest v so far in place of v.
EMBERS_INSTRUCTION_SETS void amsgrad_row(size_t n, float* __restrict row, float* __restrict m,
                                         float* __restrict v, float* __restrict v_hat,
                                         const float* __restrict grad, Factors f) {
  for (size_t i = 0; i < n; ++i) {
    moments(m[i], v[i], grad[i], f);
    v_hat[i] = std::max(v_hat[i], v[i]);
    move(row[i], m[i], v_hat[i], f);
  }
}

// Without their sign, floats are in the order of their bits, infinities and NaN last.
EMBERS_INLINE uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffff; }
constexpr uint32_t kInfinity = 0x7f800000;

// What adam_row() does to the i-th numbers. Leaves in `before` what was there, and returns the greatest
// magnitude of what is there now.
EMBERS_INLINE uint32_t adam_number(size_t n, size_t i, float* __restrict row, float* __restrict m,
                                   float* __restrict v, const float* __restrict grad,
                                   float* __restrict before, const Factors& f) {
  float r = row[i], mi = m[i], vi = v[i];
  before[i] = r;
  before[n + i] = mi;
  before[2 * n + i] = vi;
  moments(mi, vi, grad[i], f);
  move(r, mi, vi, f);
  row[i] = r;
  m[i] = mi;
  v[i] = vi;
  return std::max(std::max(magnitude(r), magnitude(mi)), magnitude(vi));
}

// One cache line of row, m and v at a time. With each, the same lines of a later row are prefetched, so that
// requests to memory go out evenly while the processor divides.
EMBERS_INSTRUCTION_SETS size_t adam_rows(const RowsToUpdate& rows, size_t begin, float* before, Factors f) {
  constexpr size_t kLine = 64 / sizeof(float), kAhead = 8;
  const size_t n = rows.dim, count = rows.rows.size();
  float* const* const row = rows.rows.data();
  const float* const grads = rows.grads.data();
  const auto prefetch = [n](const float* ahead, size_t i) __attribute__((always_inline)) {
    __builtin_prefetch(ahead + i, 1);
    __builtin_prefetch(ahead + n + i, 1);
    __builtin_prefetch(ahead + 2 * n + i, 1);
  };
  for (size_t r = begin; r < std::min(count, begin + kAhead); ++r)
    for (size_t i = 0; i < n; i += kLine) prefetch(row[r], i);
  for (size_t r = begin; r < count; ++r) {
    const float* const ahead = row[std::min(r + kAhead, count - 1)];
    const float* const grad = grads + r * n;
    uint32_t greatest[kLine] = {};
    const auto number = [&, at = row[r] ](size_t i) __attribute__((always_inline)) {
      return adam_number(n, i, at, at + n, at + 2 * n, grad, before, f);
    };
    size_t i = 0;
    for (; i + kLine <= n; i += kLine) {
      prefetch(ahead, i);
#pragma GCC ivdep
      for (size_t k = 0; k < kLine; ++k) greatest[k] = std::max(greatest[k], number(i + k));
    }
    if (i < n) prefetch(ahead, i);
    for (; i < n; ++i) greatest[0] = std::max(greatest[0], number(i));
    uint32_t all = 0;
#pragma GCC unroll 1  // unrolled, the sixteen steps would become single instructions instead of vector ones
    for (size_t k = 0; k < kLine; ++k) all = std::max(all, greatest[k]);
    if (all >= kInfinity) [[unlikely]]
      return r;
  }
  return count;
}

Factors factors(const Params& p, const UpdateRule::Step& step, AdamEpsilon place) {
  const double beta_1 = p.at("beta_1"), beta_2 = p.at("beta_2"), epsilon = p.at("epsilon");
  const double root = std::sqrt(1 - power(beta_2, step.step));
  return {static_cast<float>(1 - beta_1), static_cast<float>(1 - beta_2),
          static_cast<float>(place == AdamEpsilon::kAfterCorrection ? epsilon * root : epsilon),
          static_cast<float>(step.learning_rate * root / (1 - power(beta_1, step.step)))};
}

}  // namespace

std::vector<UpdateRule::Slot> adam_slots(const Params& params) {
  std::vector<UpdateRule::Slot> slots{{"m", 0}, {"v", 0}};
  if (params.at("amsgrad") != 0) slots.push_back({"v_hat", 0});
  return slots;
}

UpdateKernel adam_kernel(const Params& params, const UpdateRule::Step& step, AdamEpsilon epsilon) {
  const Factors f = factors(params, step, epsilon);
  if (params.at("amsgrad") != 0)
    return row_kernel({3}, [f](size_t n, float* row, float* slots, const float* grad) {
      amsgrad_row(n, row, slots, slots + n, slots + 2 * n, grad, f);
    });
  return row_kernel({2}, [f](size_t n, float* row, float* slots, const float* grad) {
    adam_row(n, row, slots, slots + n, grad, f);
  });
}

GuardedKernel guarded_adam_kernel(const Params& params, const UpdateRule::Step& step, AdamEpsilon epsilon) {
  if (params.at("amsgrad") != 0) return nullptr;
  return [f = factors(params, step, epsilon)](const RowsToUpdate& rows, size_t begin, float* before) {
    if (rows.slot_floats != 2 * rows.dim) fail_shapes(rows.dim, rows.slot_floats, rows.dim);
    return adam_rows(rows, begin, before, f);
  };
}

}  // namespace embers::storage
