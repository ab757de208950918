#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

// What every side of `embers bench storage` computes before it is timed, with Adam, from 0.5 and empty slots:
// a few steps on rows of its own, with gradients that differ; then a lap of minibatches with the one gradient
// that is timed. Each has rows that no other has, so that a row tells at which step its minibatch came.
namespace embers {

inline constexpr size_t kCheckedRows = 64;
inline constexpr int kCheckedSteps = 3;
inline constexpr float kCheckedStart = 0.5f;
inline constexpr double kCheckedRate = 0.001;   // Adam's learning rate
inline constexpr float kTimedGradient = 0.01f;  // each number of it

inline constexpr size_t kLapMinibatches = 128;  // at most

std::vector<int64_t> checked_keys(int64_t first);  // first, first + 1, ...
std::vector<float> checked_gradient(size_t i);     // of the i-th of them, in each step; kBenchDim numbers

// How far these rows have come from kCheckedStart, in the mean of their numbers, in learning rates.
float way_of(std::span<const float> rows);

// Numbers between children and the benchmark, one line.
std::string text_of(const std::vector<float>& numbers);
std::vector<float> numbers_in(const std::string& line);

}  // namespace embers
