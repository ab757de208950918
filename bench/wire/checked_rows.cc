#include "bench/wire/checked_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <sstream>

#include "bench/wire/keys.h"

namespace embers {

std::vector<int64_t> checked_keys(int64_t first) {
  std::vector<int64_t> keys(kCheckedRows);
  std::iota(keys.begin(), keys.end(), first);
  return keys;
}

std::vector<float> checked_gradient(size_t i) {
  std::vector<float> gradient;
  for (size_t column = 0; column < kBenchDim; ++column)
    gradient.push_back(0.01f * (static_cast<float>((i * 7 + column * 3) % 11) - 5));
  return gradient;
}

float way_of(std::span<const float> rows) {
  double sum = 0;
  for (const float x : rows) sum += double{kCheckedStart} - double{x};
  return static_cast<float>(sum / kCheckedRate / static_cast<double>(rows.size()));
}

std::string text_of(const std::vector<float>& numbers) {
  return fmt::format("{:.9g}", fmt::join(numbers, " "));
}

std::vector<float> numbers_in(const std::string& line) {
  std::vector<float> numbers;
  std::istringstream in(line);
  for (float number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

}  // namespace embers
