#include "base/floats/numbers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>

#include "base/errors.h"
#include "base/floats/instruction_sets.h"

namespace embers {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
constexpr uint32_t kRebias = 112u << 23;           // a float32's exponent to a float16's
constexpr uint32_t kSmallestNormal = 113u << 23;   // 2^-14 as float32: below, float16 has steps of 2^-24
constexpr uint32_t kLargestFloat16 = 0x477fe000;   // 65504
constexpr uint32_t kLargestBfloat16 = 0x7f7f0000;  // 3.39e38

// Loops are plain, without branches, so that compilers turn them into vector instructions.

// Infinity or NaN (made quiet), without its sign, as a half with a mantissa of `mantissa` bits.
uint32_t special(uint32_t bits, int mantissa) {
  const uint32_t quiet = (bits & kMagnitude) > kInfinity ? 1u << (mantissa - 1) : 0;
  return ((bits & kMagnitude) >> (23 - mantissa) & 0x7fff) | quiet;
}

uint16_t float16_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = std::min(bits & kMagnitude, kLargestFloat16);
  const uint32_t normal = (magnitude - kRebias + 0xfff + (magnitude >> 13 & 1)) >> 13;
  // 0.5 has steps of 2^-24: the sum rounds as float16 does.
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t finite = magnitude < kSmallestNormal ? small : normal;
  const bool is_special = (bits & kMagnitude) >= kInfinity;
  return static_cast<uint16_t>(bits >> 16 & 0x8000) |
         static_cast<uint16_t>(is_special ? special(bits, 10) : finite);
}

float from_float16(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  const uint32_t mantissa = magnitude & 0x3ff;
  const uint32_t normal = (magnitude << 13) + kRebias;
  const auto small = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
  const uint32_t beyond = kInfinity | mantissa << 13 | (mantissa != 0 ? 1u << 22 : 0);
  const uint32_t exponent = magnitude & 0x7c00;
  return std::bit_cast<float>(sign | (exponent == 0x7c00 ? beyond : exponent == 0 ? small : normal));
}

EMBERS_INSTRUCTION_SETS void to_float16_portable(const float* in, size_t n, uint16_t* out) {
  for (size_t i = 0; i < n; ++i) out[i] = float16_of(in[i]);
}

EMBERS_INSTRUCTION_SETS void from_float16_portable(const uint16_t* in, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = from_float16(in[i]);
}

#if defined(__x86_64__)
[[gnu::target("avx2,f16c")]] void to_float16_f16c(const float* in, size_t n, uint16_t* out) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0f), largest = _mm256_set1_ps(65504.0f);
  const __m256 infinity = _mm256_castsi256_ps(_mm256_set1_epi32(kInfinity));
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(in + i);
    const __m256 sign = _mm256_and_ps(x, sign_bit), magnitude = _mm256_andnot_ps(sign_bit, x);
    const __m256 is_finite = _mm256_cmp_ps(magnitude, infinity, _CMP_LT_OQ);
    const __m256 clamped = _mm256_or_ps(sign, _mm256_min_ps(magnitude, largest));
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_blendv_ps(x, clamped, is_finite), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  for (; i < n; ++i) out[i] = float16_of(in[i]);
}

[[gnu::target("avx2,f16c")]] void from_float16_f16c(const uint16_t* in, size_t n, float* out) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  for (; i < n; ++i) out[i] = from_float16(in[i]);
}
#endif

uint16_t bfloat16_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = std::min(bits & kMagnitude, kLargestBfloat16);
  const uint32_t finite = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
  const bool is_special = (bits & kMagnitude) >= kInfinity;
  return static_cast<uint16_t>(bits >> 16 & 0x8000) |
         static_cast<uint16_t>(is_special ? special(bits, 7) : finite);
}

EMBERS_INSTRUCTION_SETS void to_bfloat16(const float* in, size_t n, uint16_t* out) {
  for (size_t i = 0; i < n; ++i) out[i] = bfloat16_of(in[i]);
}

EMBERS_INSTRUCTION_SETS void from_bfloat16(const uint16_t* in, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(static_cast<uint32_t>(in[i]) << 16);
}

// The finalizers of SplitMix64 and MurmurHash3, which spread each bit of their input over all of the output.
uint64_t spread(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint32_t sixteen_bits(uint32_t low, uint32_t high, uint32_t i) {
  uint32_t x = (low + i * 0x9e3779b9) ^ high;
  x = (x ^ x >> 16) * 0x85ebca6b;
  x = (x ^ x >> 13) * 0xc2b2ae35;
  return x >> 16;
}

// Rounds by adding random bits to the part that is then cut off.
EMBERS_INSTRUCTION_SETS void to_bfloat16_stochastic(const float* in, size_t n, uint32_t low, uint32_t high,
                                                    uint32_t first, uint16_t* out) {
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t magnitude = std::min(bits & kMagnitude, kLargestBfloat16);
    const uint32_t finite = (magnitude + sixteen_bits(low, high, first + static_cast<uint32_t>(i))) >> 16;
    const bool is_special = (bits & kMagnitude) >= kInfinity;
    out[i] = static_cast<uint16_t>((bits >> 16 & 0x8000) | (is_special ? special(bits, 7) : finite));
  }
}

EMBERS_INSTRUCTION_SETS void to_float16_stochastic(const float* in, size_t n, uint32_t low, uint32_t high,
                                                   uint32_t first, uint16_t* out) {
  for (size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t magnitude = std::min(bits & kMagnitude, kLargestFloat16);
    const uint32_t random = sixteen_bits(low, high, first + static_cast<uint32_t>(i));
    const uint32_t normal = (magnitude - kRebias + (random & 0x1fff)) >> 13;
    const float steps = std::bit_cast<float>(std::min(magnitude, kSmallestNormal)) * 0x1p24f;
    const auto whole = static_cast<int32_t>(steps);
    const float part = (steps - static_cast<float>(whole)) * 65536.0f;
    const uint32_t small =
        static_cast<uint32_t>(whole) + (static_cast<float>(static_cast<int32_t>(random)) < part ? 1 : 0);
    const uint32_t finite = magnitude < kSmallestNormal ? small : normal;
    const bool is_special = (bits & kMagnitude) >= kInfinity;
    out[i] = static_cast<uint16_t>((bits >> 16 & 0x8000) | (is_special ? special(bits, 10) : finite));
  }
}

const Float16Conversion& float16_conversion() {
  static const Float16Conversion best = ways_to_convert_float16().back();
  return best;
}

#if defined(__x86_64__)
bool has_f16c() {
#if defined(__clang__)
  return true;  // clang 14 does not know the name; no processor has AVX2 without it
#else
  return __builtin_cpu_supports("f16c");
#endif
}
#endif

}  // namespace

std::string_view name(NumberType type) {
  constexpr std::array<std::string_view, 3> names{"float32", "float16", "bfloat16"};
  return names[static_cast<size_t>(type)];
}

NumberType number_type(uint8_t number) {
  if (number > static_cast<uint8_t>(NumberType::kBfloat16))
    fail(ErrorCode::kBadFrame, "unknown number type {}", number);
  return static_cast<NumberType>(number);
}

std::string_view name(Rounding rounding) { return rounding == Rounding::kNearest ? "nearest" : "stochastic"; }

const std::vector<Float16Conversion>& ways_to_convert_float16() {
  static const std::vector<Float16Conversion> ways = [] {
    std::vector<Float16Conversion> ways{{to_float16_portable, from_float16_portable}};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && has_f16c()) ways.push_back({to_float16_f16c, from_float16_f16c});
#endif
    return ways;
  }();
  return ways;
}

void to_halves(NumberType type, std::span<const float> in, uint16_t* out) {
  if (type == NumberType::kFloat16)
    float16_conversion().to(in.data(), in.size(), out);
  else
    to_bfloat16(in.data(), in.size(), out);
}

void to_halves_stochastic(NumberType type, std::span<const float> in, uint64_t random, uint16_t* out,
                          uint32_t first) {
  const uint64_t mixed = spread(random);
  const auto low = static_cast<uint32_t>(mixed), high = static_cast<uint32_t>(mixed >> 32);
  if (type == NumberType::kFloat16)
    to_float16_stochastic(in.data(), in.size(), low, high, first, out);
  else
    to_bfloat16_stochastic(in.data(), in.size(), low, high, first, out);
}

void from_halves(NumberType type, const uint16_t* in, std::span<float> out) {
  if (type == NumberType::kFloat16)
    float16_conversion().from(in, out.size(), out.data());
  else
    from_bfloat16(in, out.size(), out.data());
}

void round_to(NumberType type, std::span<float> numbers) {
  if (type == NumberType::kFloat32) return;
  std::array<uint16_t, 256> halves;
  for (size_t i = 0; i < numbers.size(); i += halves.size()) {
    const auto some = numbers.subspan(i, std::min(halves.size(), numbers.size() - i));
    to_halves(type, some, halves.data());
    from_halves(type, halves.data(), some);
  }
}

}  // namespace embers
