#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What every side of `embers bench storage` computes before it is timed: a few steps of Adam on rows of its
// own, with gradients that differ, from 0.5 and empty slots.
namespace embers {

inline constexpr size_t kCheckedRows = 64;
inline constexpr int kCheckedSteps = 3;
inline constexpr float kCheckedStart = 0.5f;

std::vector<int64_t> checked_keys(int64_t first);  // first, first + 1, ...
std::vector<float> checked_gradient(size_t i);     // of the i-th of them, in each step; kBenchDim numbers

// Numbers between children and the benchmark, one line.
std::string text_of(const std::vector<float>& numbers);
std::vector<float> numbers_in(const std::string& line);

}  // namespace embers
