#pragma once

#include "cuda/row.h"

// Rows that are on their way, in shared memory: more of them than registers would hold. Each lane has slots
// for its own part of rows, so that no lane waits for another.
namespace embers::cuda {

template <class Number, int kThreads, int kSlots>
class Ring {
  static constexpr int kNumbers = 4;
  static constexpr int kBytes = kNumbers * sizeof(Number);

 public:
  static constexpr size_t kMemory = size_t{kThreads} * kSlots * kBytes;

  EMBERS_DEVICE explicit Ring(char* shared) : mine_(shared + thread_index() * kBytes) {}

  // Begins to copy the numbers from `from` on.
  EMBERS_DEVICE void ask(int slot, const Number* from) {
    copy_ahead<kBytes>(mine_ + slot * kThreads * kBytes, from);
  }
  // What was asked for, once it has been waited for.
  EMBERS_DEVICE void read(int slot, float (&to)[kNumbers]) const { read_shared(at(slot), to); }

 private:
  EMBERS_DEVICE const Number* at(int slot) const {
    return reinterpret_cast<const Number*>(mine_ + slot * kThreads * kBytes);
  }

  char* mine_;
};

}  // namespace embers::cuda
