#include "bench/storage/torch_local.h"

#include <fmt/format.h>

#include <sstream>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/peers/local_rows.h"
#include "bench/wire/checked_rows.h"
#include "bench/wire/keys.h"
#include "model/step.h"

namespace embers {
namespace {

constexpr float kGradient = 0.01f;

std::vector<float> check(LocalRows& table, int64_t first) {
  const std::vector<int64_t> keys = checked_keys(first);
  std::vector<float> gradients;
  for (size_t i = 0; i < keys.size(); ++i)
    for (const float g : checked_gradient(i)) gradients.push_back(g);
  for (int step = 0; step < kCheckedSteps; ++step) table.push(keys, gradients);
  const std::span<const float> rows = table.pull(keys);
  return {rows.begin(), rows.end()};
}

std::vector<float> lap(LocalRows& table, const KeyMinibatches& minibatches, size_t count,
                       std::span<const float> gradients) {
  for (size_t i = 0; i < count; ++i) {
    table.pull(minibatches[i]);
    table.push(minibatches[i], gradients);
  }
  std::vector<float> ways;
  for (size_t i = 0; i < count; ++i) ways.push_back(way_of(table.pull(minibatches[i])));
  return ways;
}

}  // namespace

void serve_torch_local(const std::vector<std::string>& words) {
  const int64_t rows = std::stol(words.at(1));
  const auto table = LocalRows::make(rows + static_cast<int64_t>(kCheckedRows), kBenchDim, kCheckedStart);
  const KeyMinibatches uniform(rows), zipf = KeyMinibatches::zipf(rows);
  const std::vector<float> gradients(kBenchKeys * kBenchDim, kGradient);
  size_t next = 0;
  answer_lines("", [&](const std::string& line) {
    std::istringstream in(line);
    std::string what, way, drawn;
    in >> what;
    if (what == "check") {
      int64_t first = 0;
      in >> first;
      return text_of(check(*table, first));
    }
    if (what == "lap") {
      size_t count = 0;
      in >> count;
      return text_of(lap(*table, uniform, count, gradients));
    }
    double seconds = 0;
    uint32_t depth = 0, threads = 1;
    in >> seconds >> depth >> threads >> way >> drawn;
    set_threads(threads);
    const KeyMinibatches& minibatches = drawn == "zipf" ? zipf : uniform;
    const size_t first = next;
    const auto begin = BenchClock::now();
    while (seconds_since(begin) < seconds) {
      const std::span<const int64_t> keys = minibatches[next++];
      table->pull(keys);
      table->push(keys, gradients);
    }
    return fmt::format("{}", static_cast<double>((next - first) * kBenchKeys) / seconds_since(begin));
  });
}

}  // namespace embers
