#include "bench/models/lookup_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
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

// How gradients are written: around the caches, that is, four floats at a time, or a line.
enum class Writes { kCached, kFour, kLine };

template <Writes writes>
EMBERS_INLINE void store(const Line& line, float* to) {
#if defined(EMBERS_AVX512)
  if constexpr (writes == Writes::kLine) {
    asm volatile("vmovntps %1, %0" : "=m"(*reinterpret_cast<Line*>(to)) : "v"(line));
    return;
  }
#endif
#if defined(__x86_64__)
  if constexpr (writes == Writes::kFour) {
    const auto* const from = reinterpret_cast<const float*>(&line);
    for (size_t k = 0; k < kLineFloats; k += 4) _mm_stream_ps(to + k, _mm_loadu_ps(from + k));
    return;
  }
#endif
  std::memcpy(to, &line, sizeof line);
}

constexpr int64_t kNorms = static_cast<int64_t>(kLineFloats);  // that are added up at once
// Rows whose norms are found before any of them is added up: few enough for the first cache.
template <int64_t dim>
constexpr int64_t kNormsTogether = dim <= 64 ? 64 : 32;
constexpr size_t kBlock = 32;  // rows of which the clipped ones come first

// Adds each of sixteen lines up, into the floats of the first one.
template <int count = 16>
EMBERS_INLINE void sums_of(Line* lines) {
  using Mask = int __attribute__((vector_size(4 * kLineFloats)));
  static_assert(kLineFloats == 16);
  constexpr Mask kEven{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  constexpr Mask kOdd{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
#pragma GCC unroll 8
  for (int i = 0; i < count / 2; ++i)
    lines[i] = __builtin_shuffle(lines[2 * i], lines[2 * i + 1], kEven) +
               __builtin_shuffle(lines[2 * i], lines[2 * i + 1], kOdd);
  if constexpr (count > 2) sums_of<count / 2>(lines);
}

EMBERS_INLINE float sum_of(const Line& line) {
  using Half = float __attribute__((vector_size(2 * kLineFloats)));
  using Quarter = float __attribute__((vector_size(kLineFloats)));
  Half halves[2];
  std::memcpy(halves, &line, sizeof line);
  const Half half = halves[0] + halves[1];
  Quarter quarters[2];
  std::memcpy(quarters, &half, sizeof half);
  const Quarter quarter = quarters[0] + quarters[1];
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

template <int64_t dim>
struct Row {
  static constexpr int64_t kLines = dim / kNorms;
  Line lines[kLines];

  EMBERS_INLINE static Row read(const float* from) {
    Row row;
#pragma GCC unroll 8
    for (int64_t l = 0; l < kLines; ++l) std::memcpy(&row.lines[l], from + l * kNorms, sizeof row.lines[l]);
    return row;
  }
  EMBERS_INLINE void add(const Row& x, float times) {
#pragma GCC unroll 8
    for (int64_t l = 0; l < kLines; ++l) lines[l] += x.lines[l] * times;
  }
  // The products with another row, to be added up.
  EMBERS_INLINE void multiply(const Row& other, Line& products) const {
    products = lines[0] * other.lines[0];
#pragma GCC unroll 8
    for (int64_t l = 1; l < kLines; ++l) products += lines[l] * other.lines[l];
  }
  EMBERS_INLINE float dot(const Row& other) const {
    Line products;
    multiply(other, products);
    return sum_of(products);
  }
  template <Writes writes>
  EMBERS_INLINE void write(float* to) const {
#pragma GCC unroll 8
    for (int64_t l = 0; l < kLines; ++l) store<writes>(lines[l], to + l * kNorms);
  }
};

struct Forward {
  const float* table;
  const int64_t* ids;
  int64_t count;  // of ids
  const int64_t* offsets;
  int64_t bags;
  const float* scale;
  const float* weights;  // with norms
  float max_norm;
  int64_t ahead;
  float* out;
};

enum class Norms { kNone, kOne, kTogether, kTogetherAskedWithSums };

template <int64_t dim, bool second_level, Norms norms>
EMBERS_INLINE void forward_of(const Forward& task) {
  const Forward f = task;  // so that what it says stays in registers: stores may be to anywhere
  constexpr bool together = norms == Norms::kTogether || norms == Norms::kTogetherAskedWithSums;
  const float most = f.max_norm * f.max_norm;
  float times[kNormsTogether<dim>];  // of the ids from `group` on
  int64_t group = 0, found = 0;
  const auto ask = [&](int64_t p) __attribute__((always_inline)) {
    if (p < f.count) prefetch_of<dim, second_level>(f.table + f.ids[p] * dim);
  };
  const auto find_norms = [&](int64_t first) __attribute__((always_inline)) {
    Line squares[kNorms];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kNorms; ++i) {
      if (norms == Norms::kTogether) ask(first + i + f.ahead);
      const Row<dim> row = Row<dim>::read(f.table + f.ids[std::min(first + i, f.count - 1)] * dim);
      row.multiply(row, squares[i]);
    }
    sums_of(squares);
    Line& norm = squares[0];
    for (int64_t i = 0; i < kNorms; ++i) norm[i] = std::sqrt(std::max(norm[i], most));
    const Line factor = f.max_norm / norm;
    for (int64_t i = 0; i < kNorms; ++i)
      times[first - group + i] = factor[i] * f.weights[std::min(first + i, f.count - 1)];
  };
  for (int64_t b = 0; b < f.bags; ++b) {
    Row<dim> sum{};
    const auto add = [&](int64_t p) __attribute__((always_inline)) {
      if (norms != Norms::kTogether) ask(p + f.ahead + (together ? kNormsTogether<dim> : 0));
      const Row<dim> row = Row<dim>::read(f.table + f.ids[p] * dim);
      float by = 1;
      if (norms == Norms::kOne) by = f.weights[p] * f.max_norm / std::sqrt(std::max(row.dot(row), most));
      if (together) by = times[p - group];
      sum.add(row, by);
    };
    int64_t p = f.offsets[b];
    const int64_t end = f.offsets[b + 1];
    while (together && end > found) {
      for (; p < found; ++p) add(p);
      group = found;
      for (found += kNormsTogether<dim>, p = group; p < found; p += kNorms) find_norms(p);
      found = std::min(found, f.count);
      p = group;
    }
    for (; p < end; ++p) add(p);
    Row<dim> mean{};
    mean.add(sum, f.scale[b]);
    mean.template write<Writes::kCached>(f.out + b * dim);
  }
}

struct Backward {
  const float* gradient;  // of the bags
  const uint32_t *begin, *bag;
  int64_t rows;
  const float* share;
  const float* table;  // with norms, and what follows
  const int64_t* clipped;
  const float* norms;
  int64_t clipped_count;
  const uint32_t* clipped_of;
  float max_norm;
  int64_t ahead;
  float* out;
};

template <int64_t dim, bool second_level, Writes writes, bool norms, bool asked_together>
EMBERS_INLINE void backward_of(const Backward& task) {
  const Backward f = task;  // as above
  const int64_t count = f.begin[f.rows];
  const auto sum_up = [&](int64_t u) __attribute__((always_inline)) {
    Row<dim> sum{};
    for (int64_t i = f.begin[u]; i < f.begin[u + 1]; ++i) {
      if (i + f.ahead < count) prefetch_of<dim, second_level>(f.gradient + int64_t{f.bag[i + f.ahead]} * dim);
      sum.add(Row<dim>::read(f.gradient + int64_t{f.bag[i]} * dim), f.share[i]);
    }
    return sum;
  };
  const auto ask = [&](int64_t i) __attribute__((always_inline)) {
    if (i + f.ahead < f.clipped_count) prefetch_of<dim, second_level>(f.table + f.clipped[i + f.ahead] * dim);
  };
  int64_t clipped = 0;
  for (int64_t u = 0; u < f.rows;) {
    const int64_t first = u, end = norms ? std::min(u + int64_t{kBlock}, f.rows) : f.rows;
    if (norms) {
      Row<dim> together[kBlock];  // written after the last row is read
      const int64_t last = u + f.clipped_of[u / int64_t{kBlock}];
      if (asked_together)
        for (int64_t i = clipped; i < clipped + last - u; ++i) ask(i);
      for (; u < last; ++u, ++clipped) {
        if (!asked_together) ask(clipped);
        const Row<dim> sum = sum_up(u);
        const Row<dim> row = Row<dim>::read(f.table + f.clipped[clipped] * dim);
        const float norm = f.norms[clipped], factor = f.max_norm / norm;
        Row<dim> gradient{};
        gradient.add(sum, factor);
        gradient.add(row, -factor * row.dot(sum) / (norm * norm));
        if (writes == Writes::kCached)
          gradient.template write<writes>(f.out + u * dim);
        else
          together[u - first] = gradient;
      }
      for (int64_t i = 0; writes != Writes::kCached && i < u - first; ++i)
        together[i].template write<writes>(f.out + (first + i) * dim);
    }
    for (; u < end; ++u) sum_up(u).template write<writes>(f.out + u * dim);
  }
}

// What the compiler is told about a way.
template <int64_t dim>
EMBERS_INLINE void forward_of(const Forward& f, const LookupFloor::Way& way) {
  const auto run = [&]<Norms norms>() __attribute__((always_inline)) {
    way.second_level ? forward_of<dim, true, norms>(f) : forward_of<dim, false, norms>(f);
  };
  using Way = LookupFloor::Way;
  if (f.weights == nullptr)
    run.template operator()<Norms::kNone>();
  else if (way.norms == Way::Norms::kTogether)
    run.template operator()<Norms::kTogether>();
  else if (way.norms == Way::Norms::kTogetherAskedWithSums)
    run.template operator()<Norms::kTogetherAskedWithSums>();
  else
    run.template operator()<Norms::kOne>();
}

template <Writes streamed, int64_t dim, bool norms, bool asked_together = false>
EMBERS_INLINE void backward_of(const Backward& f, const LookupFloor::Way& way) {
  if constexpr (norms && !asked_together)
    if (way.asked_together) return backward_of<streamed, dim, norms, true>(f, way);
  if (way.second_level)
    way.streaming ? backward_of<dim, true, streamed, norms, asked_together>(f)
                  : backward_of<dim, true, Writes::kCached, norms, asked_together>(f);
  else
    way.streaming ? backward_of<dim, false, streamed, norms, asked_together>(f)
                  : backward_of<dim, false, Writes::kCached, norms, asked_together>(f);
}

template <Writes streamed, int64_t dim>
EMBERS_INLINE void backward_of(const Backward& f, const LookupFloor::Way& way) {
  f.table == nullptr ? backward_of<streamed, dim, false>(f, way) : backward_of<streamed, dim, true>(f, way);
}

template <Writes streamed>
EMBERS_INLINE void backward_of(const Backward& f, int64_t dim, const LookupFloor::Way& way) {
  dim == 16   ? backward_of<streamed, 16>(f, way)
  : dim == 64 ? backward_of<streamed, 64>(f, way)
              : backward_of<streamed, 128>(f, way);
}

EMBERS_INSTRUCTION_SETS void run_forward(const Forward& f, int64_t dim, const LookupFloor::Way& way) {
  dim == 16 ? forward_of<16>(f, way) : dim == 64 ? forward_of<64>(f, way) : forward_of<128>(f, way);
}

#if defined(EMBERS_AVX512)
EMBERS_AVX512 void run_backward_avx512(const Backward& f, int64_t dim, const LookupFloor::Way& way) {
  backward_of<Writes::kLine>(f, dim, way);
}
[[gnu::target("avx2,fma")]] void run_backward_avx2(const Backward& f, int64_t dim,
                                                   const LookupFloor::Way& way) {
  backward_of<Writes::kFour>(f, dim, way);
}
#endif

void run_backward(const Backward& f, int64_t dim, const LookupFloor::Way& way) {
#if defined(EMBERS_AVX512)
  if (has_avx512()) return run_backward_avx512(f, dim, way);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_backward_avx2(f, dim, way);
#endif
  backward_of<Writes::kFour>(f, dim, way);
}

}  // namespace

std::vector<LookupFloor::Way> LookupFloor::ways(bool with_norms) {
  std::vector<Way> ways;
  for (const bool second_level : {false, true})
    for (const bool streaming : {false, true}) {
      for (const int ahead : {4, 8, 16, 24, 32, 48, 64, 96})
        if (!with_norms) ways.push_back({ahead, second_level, streaming});
      for (const int ahead : {16, 24, 48, 64})
        for (const auto norms : {Way::Norms::kOne, Way::Norms::kTogether, Way::Norms::kTogetherAskedWithSums})
          for (const bool asked_together : {false, true})
            for (const bool ascending : {false, true})
              if (with_norms)
                ways.push_back({ahead, second_level, streaming, norms, asked_together, ascending});
    }
  return ways;
}

std::string LookupFloor::Way::name() const {
  const char* const of_norms = norms == Norms::kOne        ? ""
                               : norms == Norms::kTogether ? ", norms together"
                                                           : ", norms together, rows asked for with sums";
  return fmt::format("{} ahead, into the {} cache{}{}{}{}", ahead, second_level ? "second" : "first",
                     streaming ? ", streaming" : "", of_norms,
                     asked_together ? ", clipped rows asked for together" : "",
                     ascending ? ", rows ascending" : "");
}

LookupFloor::LookupFloor(std::span<const float> table, int64_t dim, const std::vector<LookupColumn>& columns,
                         std::optional<float> max_norm)
    : table_(table), dim_(dim), columns_(columns.data()), max_norm_(max_norm) {
  if (dim != 16 && dim != 64 && dim != 128) fail(ErrorCode::kInvalid, "there is no floor for dim {}", dim);
  size_t bags = 0, rows = 0;
  for (const LookupColumn& column : columns) {
    plans_.push_back(plan_of(column, false));
    if (max_norm) ascending_.push_back(plan_of(column, true));
    bags = std::max(bags, column.offsets.size() - 1);
    rows = std::max(rows, plans_.back().rows.size());
  }
  out_ = FloatBuffer(bags * static_cast<size_t>(dim));
  gradient_ = FloatBuffer(rows * static_cast<size_t>(dim));
}

float LookupFloor::norm_of(int64_t row) const {
  const auto width = static_cast<size_t>(dim_);
  const auto values = table_.subspan(static_cast<size_t>(row) * width, width);
  return static_cast<float>(std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0)));
}

LookupFloor::Plan LookupFloor::plan_of(const LookupColumn& column, bool ascending) const {
  Plan plan;
  std::unordered_map<int64_t, uint32_t> place;
  for (const int64_t id : column.ids)
    if (place.try_emplace(id).second) plan.rows.push_back(id);
  if (ascending) std::sort(plan.rows.begin(), plan.rows.end());
  for (size_t begin = 0; max_norm_ && begin < plan.rows.size(); begin += kBlock) {
    const auto first = plan.rows.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        plan.rows.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kBlock, plan.rows.size()));
    const auto middle =
        std::stable_partition(first, last, [this](int64_t row) { return norm_of(row) > *max_norm_; });
    for (auto row = first; row != middle; ++row) {
      plan.clipped.push_back(*row);
      plan.norms.push_back(norm_of(*row));
    }
    plan.clipped_of.push_back(static_cast<uint32_t>(middle - first));
  }
  for (size_t u = 0; u < plan.rows.size(); ++u) place[plan.rows[u]] = static_cast<uint32_t>(u);
  plan.begin.assign(plan.rows.size() + 1, 0);
  for (const int64_t id : column.ids) ++plan.begin[place.at(id) + 1];
  for (size_t u = 0; u < plan.rows.size(); ++u) plan.begin[u + 1] += plan.begin[u];
  plan.bag.resize(column.ids.size());
  plan.share.resize(column.ids.size());
  std::vector<uint32_t> next = plan.begin;
  for (size_t b = 0; b + 1 < column.offsets.size(); ++b) {
    const auto begin = static_cast<size_t>(column.offsets[b]),
               end = static_cast<size_t>(column.offsets[b + 1]);
    const auto weight = [&](size_t p) { return max_norm_ ? column.weights[p] : 1.0f; };
    float sum = 0;
    for (size_t p = begin; p < end; ++p) sum += weight(p);
    plan.scale.push_back(1 / sum);
    for (size_t p = begin; p < end; ++p) {
      const uint32_t at = next[place.at(column.ids[p])]++;
      plan.bag[at] = static_cast<uint32_t>(b);
      plan.share[at] = weight(p) / sum;
    }
  }
  return plan;
}

void LookupFloor::forward(const LookupColumn& column) {
  column_ = static_cast<size_t>(&column - columns_);
  const Plan& plan = plans_.at(column_);
  out_.fit(plan.scale.size() * static_cast<size_t>(dim_));
  run_forward({table_.data(), column.ids.data(), static_cast<int64_t>(column.ids.size()),
               column.offsets.data(), static_cast<int64_t>(plan.scale.size()), plan.scale.data(),
               max_norm_ ? column.weights.data() : nullptr, max_norm_.value_or(0), way_.ahead, out_.data()},
              dim_, way_);
}

void LookupFloor::backward(std::span<const float> out_gradient) {
  const Plan& plan = this->plan();
  gradient_.fit(plan.rows.size() * static_cast<size_t>(dim_));
  run_backward(
      {out_gradient.data(), plan.begin.data(), plan.bag.data(), static_cast<int64_t>(plan.rows.size()),
       plan.share.data(), max_norm_ ? table_.data() : nullptr, plan.clipped.data(), plan.norms.data(),
       static_cast<int64_t>(plan.clipped.size()), plan.clipped_of.data(), max_norm_.value_or(0), way_.ahead,
       gradient_.data()},
      dim_, way_);
}

}  // namespace embers
