#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace embers {

// How numbers of rows are kept in memory and sent. Arithmetic is always float32.
enum class NumberType : uint8_t {
  kFloat32 = 0,
  kFloat16 = 1,   // IEEE 754 binary16: 11 significant bits, up to 65504, steps of 6e-8 around zero
  kBfloat16 = 2,  // a float32 without its lower half: 8 significant bits, float32's range
};

std::string_view name(NumberType type);  // "float32", "float16", "bfloat16"
// The type with this number; kBadFrame if there is none.
NumberType number_type(uint8_t number);
constexpr size_t bytes_of(NumberType type) { return type == NumberType::kFloat32 ? 4 : 2; }

// How a float32 becomes a half.
enum class Rounding : uint8_t {
  kNearest = 0,     // ties to even
  kStochastic = 1,  // up or down, with probabilities such that the mean is the float32
};

std::string_view name(Rounding rounding);  // "nearest", "stochastic"

// Halves are numbers of 16 bits; `type` is one of the two types of halves. A finite number stays finite: one
// beyond the largest half becomes the largest half. Infinities and NaN stay what they are. The results are
// the same bits on every processor.

// out[i] = in[i], rounded to nearest; `out` has room for in.size() numbers.
void to_halves(NumberType type, std::span<const float> in, uint16_t* out);
// The same, but rounded stochastically, by bits that are a pure function of (random, first + i).
void to_halves_stochastic(NumberType type, std::span<const float> in, uint64_t random, uint16_t* out,
                          uint32_t first = 0);
// out[i] = in[i], exactly.
void from_halves(NumberType type, const uint16_t* in, std::span<float> out);

// Replaces each number with what it becomes when it is kept as `type`, rounded to nearest.
void round_to(NumberType type, std::span<float> numbers);

// Ways to convert float16 on this machine, the slowest first, for tests; the last one is used.
struct Float16Conversion {
  void (*to)(const float* in, size_t n, uint16_t* out);
  void (*from)(const uint16_t* in, size_t n, float* out);
};
const std::vector<Float16Conversion>& ways_to_convert_float16();

}  // namespace embers
