#include "bench/engine/floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/errors.h"
#include "base/floats/instruction_sets.h"
#include "base/floats/prefetch.h"

namespace embers {
namespace {

constexpr size_t kLine = 64;          // bytes
constexpr uint64_t kIndexBytes = 16;  // a row

template <bool second_level>
EMBERS_PREFETCHES void prefetch(const void* at) {
  second_level ? __builtin_prefetch(at, 0, 2) : __builtin_prefetch(at, 0, 3);
}

template <size_t floats, bool index, bool second_level>
EMBERS_PREFETCHES void prefetch(const Place& place) {
  if constexpr (index) prefetch<second_level>(place.line);
  if constexpr (floats > 0)
    for (size_t f = 0; f < floats; f += kLine / sizeof(float)) prefetch<second_level>(place.row + f);
}

// Uses each place, `ahead` places after having prefetched it.
template <size_t floats, bool index, bool second_level, class Use>
EMBERS_INLINE unsigned use_all(std::span<const Place> places, size_t ahead, const Use& use) {
  unsigned sum = 0;
  const size_t n = places.size(), first = std::min(ahead, n);
  for (size_t i = 0; i < first; ++i) prefetch<floats, index, second_level>(places[i]);
  for (size_t i = 0; i < n; ++i) {
    if (i + ahead < n) prefetch<floats, index, second_level>(places[i + ahead]);
    if constexpr (index) sum += static_cast<unsigned>(*places[i].line);
    use(i);
  }
  return sum;
}

template <size_t dim, bool second_level>
EMBERS_INLINE unsigned pull(std::span<const Place> places, size_t ahead, float* out) {
  return use_all<dim, true, second_level>(
      places, ahead, [&](size_t i) { std::memcpy(out + i * dim, places[i].row, dim * sizeof(float)); });
}

template <size_t dim>
EMBERS_INLINE unsigned pull(std::span<const Place> places, Ahead ahead, float* out) {
  return ahead.second_level ? pull<dim, true>(places, ahead.rows, out)
                            : pull<dim, false>(places, ahead.rows, out);
}

// In as many registers as the instruction set needs for them.
template <size_t floats>
struct FloatsOf {
  typedef float Vector __attribute__((vector_size(floats * sizeof(float))));
  static_assert(sizeof(Vector) == floats * sizeof(float));
};

template <size_t dim, bool spread, bool at_end, bool second_level>
EMBERS_INLINE unsigned push(std::span<const Place> places, size_t ahead, const float* grads) {
  constexpr size_t kFloats = std::min(dim, kLine / sizeof(float)), kParts = dim / kFloats;
  constexpr size_t kAtOnce = spread ? 0 : 3 * dim;
  using Part = typename FloatsOf<kFloats>::Vector;
  const size_t n = places.size();
  const auto change = [&](size_t i) __attribute__((always_inline)) {
    const float* const next = places[std::min(i + ahead, n - 1)].row;
    float* const row = places[i].row;
    Part new_row[kParts], new_m[kParts], new_v[kParts];
    const auto store = [&](size_t p) __attribute__((always_inline)) {
      std::memcpy(row + p * kFloats, &new_row[p], sizeof(Part));
      std::memcpy(row + dim + p * kFloats, &new_m[p], sizeof(Part));
      std::memcpy(row + 2 * dim + p * kFloats, &new_v[p], sizeof(Part));
    };
#pragma GCC unroll 8
    for (size_t p = 0; p < kParts; ++p) {
      const size_t begin = p * kFloats;
      if (spread)
        for (size_t part = 0; part < 3; ++part) prefetch<second_level>(next + part * dim + begin);
      Part grad;
      std::memcpy(&grad, grads + i * dim + begin, sizeof grad);
      std::memcpy(&new_row[p], row + begin, sizeof(Part));
      std::memcpy(&new_m[p], row + dim + begin, sizeof(Part));
      std::memcpy(&new_v[p], row + 2 * dim + begin, sizeof(Part));
      new_m[p] += (grad - new_m[p]) * 0.1f;
      new_v[p] += (grad - new_v[p]) * 0.001f;
      new_row[p] -= 1e-6f * new_m[p];
      if (!at_end) store(p);
    }
    if (at_end) {
#pragma GCC unroll 8
      for (size_t p = 0; p < kParts; ++p) store(p);
    }
  };
  return use_all<kAtOnce, false, second_level>(places, ahead, change);
}

template <size_t dim, bool spread, bool at_end>
EMBERS_INLINE unsigned push(std::span<const Place> places, Ahead ahead, const float* grads) {
  return ahead.second_level ? push<dim, spread, at_end, true>(places, ahead.rows, grads)
                            : push<dim, spread, at_end, false>(places, ahead.rows, grads);
}

template <size_t dim>
EMBERS_INLINE unsigned push(std::span<const Place> places, Ahead ahead, PushWay way, const float* grads) {
  switch (way) {
    case PushWay::kAtOnce:
      return push<dim, false, false>(places, ahead, grads);
    case PushWay::kLineByLine:
      return push<dim, true, false>(places, ahead, grads);
    case PushWay::kStoredAtEnd:
      return push<dim, true, true>(places, ahead, grads);
  }
  return 0;
}

}  // namespace

std::vector<Ahead> ways_ahead() {
  std::vector<Ahead> ways;
  for (const bool second_level : {false, true})
    for (size_t rows = 2; rows <= 128; rows *= 2) ways.push_back({rows, second_level});
  return ways;
}

std::string name(PushWay way) {
  switch (way) {
    case PushWay::kAtOnce:
      return "";
    case PushWay::kLineByLine:
      return ", line by line";
    case PushWay::kStoredAtEnd:
      return ", line by line, stored at the end";
  }
  fail(ErrorCode::kInternal, "there is no such way of pushing");
}

std::string name(const Ahead& ahead) {
  return fmt::format("{} ahead, into the {} cache", ahead.rows, ahead.second_level ? "second" : "first");
}

EMBERS_INSTRUCTION_SETS unsigned pull_floor(std::span<const Place> places, size_t dim, Ahead ahead,
                                            float* out) {
  switch (dim) {
    case 4:
      return pull<4>(places, ahead, out);
    case 16:
      return pull<16>(places, ahead, out);
    case 64:
      return pull<64>(places, ahead, out);
    case 128:
      return pull<128>(places, ahead, out);
    default:
      fail(ErrorCode::kInternal, "there is no floor for dim {}", dim);
  }
}

EMBERS_INSTRUCTION_SETS unsigned push_floor(std::span<const Place> places, size_t dim, Ahead ahead,
                                            PushWay way, const float* grads) {
  switch (dim) {
    case 4:
      return push<4>(places, ahead, way, grads);
    case 16:
      return push<16>(places, ahead, way, grads);
    case 64:
      return push<64>(places, ahead, way, grads);
    case 128:
      return push<128>(places, ahead, way, grads);
    default:
      fail(ErrorCode::kInternal, "there is no floor for dim {}", dim);
  }
}

Places::Places(Engine& engine, Minibatches batches)
    : lines_(engine.rows() * kIndexBytes + storage::kHugePage, true) {
  std::memset(lines_.data(), 1, lines_.size());
  std::mt19937_64 random(3);
  for (const auto& rows : engine.places(batches))
    for (auto& list = places_.emplace_back(); float* const row : rows)
      list.push_back({row, lines_.data() + random() % (lines_.size() / kLine) * kLine});
}

}  // namespace embers
