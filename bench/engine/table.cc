#include "bench/engine/table.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "storage/apply.h"
#include "storage/memory/pages.h"

namespace embers {
namespace {

constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // odd, so that it has an inverse modulo 2^64
constexpr uint64_t kInverse = 0xF1DE83E19937733D;
static_assert(kFactor * kInverse == 1);

// Rows of [0, rows) with probabilities of k^-1.05, drawn by inverting the integral of that, and scattered.
class RandomRows {
 public:
  RandomRows(uint64_t rows, bool zipf) : rows_(rows), zipf_(zipf) {}
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

namespace {

// What a row begins with tells it from others, and each of its numbers from the others.
float value_of(uint64_t row, size_t column) {
  return 0.25f + static_cast<float>(row % 4093) * 0x1p-14f + static_cast<float>(column) * 0x1p-18f;
}

}  // namespace

uint64_t row_of(int64_t key) { return static_cast<uint64_t>(key) * kInverse; }

std::vector<std::vector<int64_t>> minibatches(size_t count, uint64_t rows, bool zipf) {
  RandomRows random(rows, zipf);
  std::vector<std::vector<int64_t>> all(count);
  for (auto& keys : all) {
    for (size_t i = 0; i < kBatch; ++i) keys.push_back(key_of(random.next()));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::shuffle(keys.begin(), keys.end(), std::mt19937_64(keys.size()));
  }
  return all;
}

size_t keys_of(Minibatches batches) {
  size_t keys = 0;
  for (const auto& batch : batches) keys += batch.size();
  return keys;
}

Engine::Engine(uint32_t dim, bool slots, NumberType type, Rounding rounding)
    : dim(dim), out(kBatch * dim), grads(kBatch * dim) {
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = 0.005f + static_cast<float>(i % 1009) * 0x1p-18f;
  TableSpec spec;
  spec.name = "bench";
  spec.dim = dim;
  spec.number_type = type;
  spec.rounding = rounding;
  store->add_table(spec, slots ? storage::slot_init(*adam, dim) : std::vector<float>());
}

std::vector<double> Engine::fill(uint64_t wanted) {
  std::vector<float> values(kFill * dim);
  std::vector<double> seconds;
  std::vector<int64_t> keys;
  for (uint64_t begin = rows(); begin < wanted; begin += kFill) {
    keys.clear();
    for (uint64_t n = begin; n < std::min(wanted, begin + kFill); ++n) {
      for (size_t k = 0; k < dim; ++k) values[keys.size() * dim + k] = value_of(n, k);
      keys.push_back(key_of(n));
    }
    const auto start = BenchClock::now();
    store->add_if_absent(0, view(keys), std::span(values).first(keys.size() * dim));
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

std::vector<std::vector<float*>> Engine::places(Minibatches batches) {
  std::vector<float*> of_row(rows());
  for (uint64_t cursor = 0; cursor != storage::Store::kScanEnd;)
    cursor = store->scan(0, cursor, 1 << 16, [&](KeysView keys, std::span<const float> values) {
      const size_t stride = values.size() / keys.size();
      for (size_t i = 0; i < keys.size(); ++i)
        of_row.at(row_of(keys.ints[i])) = const_cast<float*>(values.data()) + i * stride;
    });
  std::vector<std::vector<float*>> all;
  for (const auto& keys : batches)
    for (auto& list = all.emplace_back(); const int64_t key : keys) list.push_back(of_row.at(row_of(key)));
  return all;
}

void Engine::pull(Minibatches batches) {
  size_t there = 0;
  for (const auto& batch : batches)
    there += store->gather(0, view(batch), std::span(out).first(batch.size() * dim),
                           std::span(found).first(batch.size()));
  if (there != keys_of(batches)) fail(ErrorCode::kInternal, "only {} rows were found", there);
}

void Engine::push(Minibatches batches, double learning_rate) {
  for (const auto& batch : batches)
    storage::apply(*store, 0, *adam, {++steps, learning_rate}, view(batch),
                   std::span(grads).first(batch.size() * dim));
}

uint64_t table_bytes(uint64_t rows, uint32_t dim, bool slots) {
  return rows * ((slots ? 12 : 4) * uint64_t{dim} + 64);
}

namespace {

constexpr uint64_t kPart = uint64_t{16} << 20;
constexpr uint64_t kFirst = uint64_t{256} << 20;  // an index takes much at once

}  // namespace

WarmMemory::WarmMemory(uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += kPart) {
    const storage::Pages& pages = parts_.emplace_back(kPart, true);
    for (size_t at = 0; at < pages.size(); at += storage::kHugePage) pages.data()[at] = std::byte{1};
  }
  give_back(kFirst);
}

void WarmMemory::give_back(uint64_t bytes) {
  for (owed_ += bytes; owed_ >= kPart && !parts_.empty(); owed_ -= kPart) parts_.pop_back();
}

}  // namespace embers
