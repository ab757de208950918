#include "bench/storage/torch_local.h"

#include <fmt/format.h>

#include <sstream>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/peers/local_rows.h"
#include "bench/wire/checked_rows.h"
#include "bench/wire/keys.h"
#include "bench/wire/replay.h"
#include "model/step.h"

namespace embers {
namespace {

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
  const std::vector<float> gradients(kBenchKeys * kBenchDim, kTimedGradient);
  Replay replay(uniform, zipf);
  uint64_t step = 0;
  size_t next = 0;
  answer_lines("", [&](const std::string& line) {
    std::istringstream in(line);
    std::string what, way, drawn;
    in >> what;
    if (what == "check") {
      int64_t first = 0;
      in >> first;
      step += kCheckedSteps;
      return text_of(check(*table, first));
    }
    if (what == "lap") {
      size_t count = 0;
      in >> count;
      for (size_t i = 0; i < count; ++i) replay.trained(false, i, ++step);
      return text_of(lap(*table, uniform, count, gradients));
    }
    if (what == "replayed")
      return replay.answer([&](std::span<const int64_t> keys) {
        const std::span<const float> rows = table->pull(keys);
        return std::vector<float>(rows.begin(), rows.end());
      });
    double seconds = 0;
    uint32_t depth = 0, threads = 1;
    in >> seconds >> depth >> threads >> way >> drawn;
    set_threads(threads);
    const bool by_zipf = drawn == "zipf";
    const KeyMinibatches& minibatches = by_zipf ? zipf : uniform;
    const size_t first = next;
    const auto begin = BenchClock::now();
    while (seconds_since(begin) < seconds) {
      const std::span<const int64_t> keys = minibatches[next++];
      way == "prefetching" ? table->pull_prefetching(keys) : table->pull(keys);
      table->push(keys, gradients);
    }
    const double took = seconds_since(begin);
    for (size_t i = first; i < next; ++i) replay.trained(by_zipf, i, ++step);
    return fmt::format("{}", static_cast<double>((next - first) * kBenchKeys) / took);
  });
}

}  // namespace embers
