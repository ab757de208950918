#include "bench/models/lookup_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/errors.h"
#include "base/floats/instruction_sets.h"
#include "base/floats/prefetch.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace embers {
namespace {

// A cache line of floats, in as many registers as the instruction set needs for it.
using Line = float __attribute__((vector_size(4 * kLineFloats)));

template <int64_t dim, bool second_level>
EMBERS_PREFETCHES void prefetch_of(const float* row) {
  for (int64_t k = 0; k < dim; k += int64_t{kLineFloats})
    second_level ? __builtin_prefetch(row + k, 0, 2) : __builtin_prefetch(row + k, 0, 3);
}

EMBERS_INLINE void stream(const float* from, float* to) {
#if defined(__x86_64__)
  for (size_t k = 0; k < kLineFloats; k += 4) _mm_stream_ps(to + k, _mm_loadu_ps(from + k));
#else
  std::memcpy(to, from, 4 * kLineFloats);
#endif
}

struct Forward {
  const float* table;
  const int64_t* ids;
  int64_t count;  // of ids
  const int64_t* offsets;
  int64_t bags;
  const float* scale;
  int64_t ahead;
  float* out;
};

template <int64_t dim, bool second_level>
EMBERS_INLINE void forward_of(const Forward& task) {
  const Forward f = task;  // so that what it says stays in registers: stores may be to anywhere
  constexpr int64_t kLines = dim / int64_t{kLineFloats};
  for (int64_t b = 0; b < f.bags; ++b) {
    Line sum[kLines] = {};
    for (int64_t p = f.offsets[b]; p < f.offsets[b + 1]; ++p) {
      if (p + f.ahead < f.count) prefetch_of<dim, second_level>(f.table + f.ids[p + f.ahead] * dim);
      const float* const row = f.table + f.ids[p] * dim;
#pragma GCC unroll 8
      for (int64_t l = 0; l < kLines; ++l) {
        Line x;
        std::memcpy(&x, row + l * kLineFloats, sizeof x);
        sum[l] += x;
      }
    }
#pragma GCC unroll 8
    for (int64_t l = 0; l < kLines; ++l) {
      const Line mean = sum[l] * f.scale[b];
      std::memcpy(f.out + b * dim + l * kLineFloats, &mean, sizeof mean);
    }
  }
}

struct Backward {
  const float* gradient;  // of the bags
  const uint32_t *begin, *bag;
  int64_t rows;
  const float* scale;
  int64_t ahead;
  float* out;
};

template <int64_t dim, bool second_level, bool streaming>
EMBERS_INLINE void backward_of(const Backward& task) {
  const Backward f = task;  // as above
  constexpr int64_t kLines = dim / int64_t{kLineFloats};
  const int64_t count = f.begin[f.rows];
  for (int64_t u = 0; u < f.rows; ++u) {
    Line sum[kLines] = {};
    for (int64_t i = f.begin[u]; i < f.begin[u + 1]; ++i) {
      if (i + f.ahead < count) prefetch_of<dim, second_level>(f.gradient + int64_t{f.bag[i + f.ahead]} * dim);
      const int64_t b = f.bag[i];
      const float* const of_bag = f.gradient + b * dim;
#pragma GCC unroll 8
      for (int64_t l = 0; l < kLines; ++l) {
        Line x;
        std::memcpy(&x, of_bag + l * kLineFloats, sizeof x);
        sum[l] += x * f.scale[b];
      }
    }
    float* const to = f.out + u * dim;
#pragma GCC unroll 8
    for (int64_t l = 0; l < kLines; ++l) {
      if (streaming)
        stream(reinterpret_cast<const float*>(&sum[l]), to + l * kLineFloats);
      else
        std::memcpy(to + l * kLineFloats, &sum[l], sizeof sum[l]);
    }
  }
}

template <int64_t dim>
EMBERS_INLINE void forward_of(const Forward& f, bool second_level) {
  second_level ? forward_of<dim, true>(f) : forward_of<dim, false>(f);
}

template <int64_t dim>
EMBERS_INLINE void backward_of(const Backward& f, bool second_level, bool streaming) {
  if (second_level)
    streaming ? backward_of<dim, true, true>(f) : backward_of<dim, true, false>(f);
  else
    streaming ? backward_of<dim, false, true>(f) : backward_of<dim, false, false>(f);
}

EMBERS_INSTRUCTION_SETS void run_forward(const Forward& f, int64_t dim, bool second_level) {
  dim == 16   ? forward_of<16>(f, second_level)
  : dim == 64 ? forward_of<64>(f, second_level)
              : forward_of<128>(f, second_level);
}

EMBERS_INSTRUCTION_SETS void run_backward(const Backward& f, int64_t dim, bool second_level, bool streaming) {
  dim == 16   ? backward_of<16>(f, second_level, streaming)
  : dim == 64 ? backward_of<64>(f, second_level, streaming)
              : backward_of<128>(f, second_level, streaming);
}

}  // namespace

std::vector<LookupFloor::Way> LookupFloor::ways() {
  std::vector<Way> ways;
  for (const bool second_level : {false, true})
    for (const bool streaming : {false, true})
      for (const int ahead : {4, 8, 16, 24, 32, 48, 64, 96}) ways.push_back({ahead, second_level, streaming});
  return ways;
}

std::string LookupFloor::Way::name() const {
  return fmt::format("{} ahead, into the {} cache{}", ahead, second_level ? "second" : "first",
                     streaming ? ", streaming" : "");
}

LookupFloor::LookupFloor(std::span<const float> table, int64_t dim, const std::vector<LookupColumn>& columns)
    : table_(table), dim_(dim), columns_(columns.data()) {
  if (dim != 16 && dim != 64 && dim != 128) fail(ErrorCode::kInvalid, "there is no floor for dim {}", dim);
  size_t bags = 0, rows = 0;
  for (const LookupColumn& column : columns) {
    plans_.push_back(plan_of(column));
    bags = std::max(bags, column.offsets.size() - 1);
    rows = std::max(rows, plans_.back().rows.size());
  }
  out_ = FloatBuffer(bags * static_cast<size_t>(dim));
  gradient_ = FloatBuffer(rows * static_cast<size_t>(dim));
}

LookupFloor::Plan LookupFloor::plan_of(const LookupColumn& column) {
  Plan plan;
  std::unordered_map<int64_t, uint32_t> place;
  for (const int64_t id : column.ids)
    if (place.emplace(id, static_cast<uint32_t>(plan.rows.size())).second) plan.rows.push_back(id);
  plan.begin.assign(plan.rows.size() + 1, 0);
  for (const int64_t id : column.ids) ++plan.begin[place.at(id) + 1];
  for (size_t u = 0; u < plan.rows.size(); ++u) plan.begin[u + 1] += plan.begin[u];
  plan.bag.resize(column.ids.size());
  std::vector<uint32_t> next = plan.begin;
  for (size_t b = 0; b + 1 < column.offsets.size(); ++b) {
    const int64_t begin = column.offsets[b], end = column.offsets[b + 1];
    plan.scale.push_back(1 / static_cast<float>(end - begin));
    for (int64_t p = begin; p < end; ++p)
      plan.bag[next[place.at(column.ids[static_cast<size_t>(p)])]++] = static_cast<uint32_t>(b);
  }
  return plan;
}

void LookupFloor::forward(const LookupColumn& column) {
  column_ = static_cast<size_t>(&column - columns_);
  const Plan& plan = plans_.at(column_);
  out_.fit(plan.scale.size() * static_cast<size_t>(dim_));
  run_forward(
      {table_.data(), column.ids.data(), static_cast<int64_t>(column.ids.size()), column.offsets.data(),
       static_cast<int64_t>(plan.scale.size()), plan.scale.data(), way_.ahead, out_.data()},
      dim_, way_.second_level);
}

void LookupFloor::backward(std::span<const float> out_gradient) {
  const Plan& plan = plans_[column_];
  gradient_.fit(plan.rows.size() * static_cast<size_t>(dim_));
  run_backward({out_gradient.data(), plan.begin.data(), plan.bag.data(),
                static_cast<int64_t>(plan.rows.size()), plan.scale.data(), way_.ahead, gradient_.data()},
               dim_, way_.second_level, way_.streaming);
}

}  // namespace embers
