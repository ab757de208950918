#include "bench/peers/local_rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "base/floats/prefetch.h"
#include "bench/peers/row_adam.h"

namespace embers {
namespace {

constexpr int64_t kOfOneThread = 512;  // rows, at least
constexpr double kRate = 0.001, kBeta1 = 0.9, kBeta2 = 0.999;
constexpr float kEpsilon = 1e-7f;

at::Tensor in_huge_pages(int64_t rows, int64_t dim, float value) {
  const auto bytes = static_cast<size_t>(rows * dim) * sizeof(float);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(ErrorCode::kInvalid, "not enough memory for {} rows", rows);
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return at::from_blob(
             memory, {rows, dim}, [bytes](void* at) { ::munmap(at, bytes); }, at::kFloat)
      .fill_(value);
}

class Rows final : public LocalRows {
 public:
  Rows(int64_t rows, int64_t dim, float first_value)
      : dim_(dim),
        values_(in_huge_pages(rows, dim, first_value)),
        averages_(in_huge_pages(rows, dim, 0)),
        squares_(in_huge_pages(rows, dim, 0)) {}

  std::span<const float> pull(std::span<const int64_t> keys) override {
    const at::Tensor ids =
        at::from_blob(const_cast<int64_t*>(keys.data()), {static_cast<int64_t>(keys.size())}, at::kLong);
    pulled_ = at::index_select(values_, 0, ids);
    return {pulled_.data_ptr<float>(), static_cast<size_t>(pulled_.numel())};
  }

  std::span<const float> pull_prefetching(std::span<const int64_t> keys) override {
    const auto count = static_cast<int64_t>(keys.size());
    if (!pulled_.defined() || pulled_.size(0) != count) pulled_ = at::empty({count, dim_});
    float* const to = pulled_.data_ptr<float>();
    const float* const from = values_.data_ptr<float>();
    const auto rows_before = static_cast<int64_t>(rows_ahead(static_cast<size_t>(dim_)));
    at::parallel_for(0, count, kOfOneThread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto key = [&](int64_t at) { return keys[static_cast<size_t>(at)]; };
        prefetch_row(from + key(std::min(i + rows_before, end - 1)) * dim_, static_cast<size_t>(dim_));
        std::copy_n(from + key(i) * dim_, dim_, to + i * dim_);
      }
    });
    return {to, static_cast<size_t>(pulled_.numel())};
  }

  void push(std::span<const int64_t> keys, std::span<const float> gradients) override {
    ++steps_;
    const double rate = kRate * std::sqrt(1 - std::pow(kBeta2, steps_)) / (1 - std::pow(kBeta1, steps_));
    const RowAdam adam{kBeta1, kBeta2, kEpsilon, static_cast<float>(rate)};
    float* const of[] = {values_.data_ptr<float>(), averages_.data_ptr<float>(), squares_.data_ptr<float>()};
    const int64_t* const key = keys.data();
    const auto rows_before = static_cast<int64_t>(rows_ahead(3 * static_cast<size_t>(dim_)));
    const float* const gradient = gradients.data();
    at::parallel_for(0, static_cast<int64_t>(keys.size()), kOfOneThread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t ahead = key[std::min(i + rows_before, end - 1)] * dim_, at = key[i] * dim_;
        for (float* const matrix : of) prefetch_row(matrix + ahead, static_cast<size_t>(dim_));
        adam_row(adam, dim_, gradient + i * dim_, of[0] + at, of[1] + at, of[2] + at);
      }
    });
  }

 private:
  const int64_t dim_;
  at::Tensor values_, averages_, squares_, pulled_;
  double steps_ = 0;
};

}  // namespace

std::unique_ptr<LocalRows> LocalRows::make(int64_t rows, int64_t dim, float first_value) {
  return std::make_unique<Rows>(rows, dim, first_value);
}

}  // namespace embers
