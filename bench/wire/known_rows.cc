#include "bench/wire/known_rows.h"

#include "base/floats/copy_floats.h"

namespace embers {

KnownRows::KnownRows() : pages_(kWireRows * kBenchDim * sizeof(float), true) {
  auto* const rows = reinterpret_cast<float*>(pages_.data());
  for (int64_t key = 0; key < kWireRows; ++key)
    for (size_t column = 0; column < kBenchDim; ++column)
      rows[static_cast<size_t>(key) * kBenchDim + column] = wire_value(key, column);
  const KeyMinibatches keys(kWireRows);
  for (size_t m = 0; m < kBenchMinibatches; ++m)
    for (const int64_t key : keys[m]) places_.push_back(rows + key * kBenchDim);
}

void KnownRows::copy(size_t minibatch, size_t first, size_t count, float* to) {
  copy_rows(places(minibatch).subspan(first, count), kBenchDim, to, found_.data());
}

void KnownRows::copy(size_t minibatch, float* to, Stores stores) {
  copy_rows(places(minibatch), kBenchDim, to, found_.data(), stores);
}

}  // namespace embers
