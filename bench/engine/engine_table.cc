#include "bench/engine/engine_table.h"

#include <absl/container/flat_hash_map.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace embers {
namespace {

constexpr size_t kMinibatches = 64;  // of one timing

// Numbers of [0, rows) with probabilities of k^-1.05, drawn by inverting the integral of that, and scattered.
class Numbers {
 public:
  Numbers(uint64_t rows, bool zipf) : rows_(rows), zipf_(zipf) {}
  uint64_t next() {
    if (!zipf_) return static_cast<uint64_t>(unit_(random_) * static_cast<double>(rows_));
    const double most = 1 - std::pow(static_cast<double>(rows_), -kExponent);
    const double rank = std::pow(1 - unit_(random_) * most, -1 / kExponent);
    return static_cast<uint64_t>(rank) * 2654435761 % rows_;
  }

 private:
  static constexpr double kExponent = 0.05;
  uint64_t rows_;
  bool zipf_;
  std::mt19937_64 random_{7};
  std::uniform_real_distribution<double> unit_{0, 1};
};

}  // namespace

std::vector<std::vector<int64_t>> minibatches(uint64_t rows, bool zipf) {
  Numbers numbers(rows, zipf);
  std::vector<std::vector<int64_t>> all(kMinibatches);
  for (auto& keys : all) {
    for (size_t i = 0; i < kBatch; ++i) keys.push_back(key_of(numbers.next()));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(keys.size()));
  }
  return all;
}

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Engine::Engine(uint32_t dim, uint64_t rows, bool slots, NumberType type, Rounding rounding) : dim(dim) {
  TableSpec spec;
  spec.name = "bench";
  spec.dim = dim;
  spec.number_type = type;
  spec.rounding = rounding;
  store->add_table(spec, slots ? storage::slot_init(*adam, dim) : std::vector<float>());
  const std::vector<float> values(kFill * dim, 0.5f);
  std::vector<int64_t> keys;
  for (uint64_t begin = 0; begin < rows; begin += kFill) {
    keys.clear();
    for (uint64_t n = begin; n < std::min(rows, begin + kFill); ++n) keys.push_back(key_of(n));
    const double start = cpu_seconds();
    store->add_if_absent(0, view(keys), std::span(values).first(keys.size() * dim));
    insert_seconds.push_back(cpu_seconds() - start);
  }
}

std::vector<std::vector<float*>> Engine::places(const std::vector<std::vector<int64_t>>& batches) {
  absl::flat_hash_map<int64_t, float*> wanted;
  for (const auto& keys : batches)
    for (const int64_t key : keys) wanted[key] = nullptr;
  for (uint64_t cursor = 0; cursor != storage::Store::kScanEnd;)
    cursor = store->scan(0, cursor, 1 << 16, [&](KeysView keys, std::span<const float> values) {
      const size_t stride = values.size() / keys.size();
      for (size_t i = 0; i < keys.size(); ++i)
        if (const auto found = wanted.find(keys.ints[i]); found != wanted.end())
          found->second = const_cast<float*>(values.data()) + i * stride;
    });
  std::vector<std::vector<float*>> all;
  for (const auto& keys : batches)
    for (auto& list = all.emplace_back(); const int64_t key : keys) list.push_back(wanted.at(key));
  return all;
}

}  // namespace embers
