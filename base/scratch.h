#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace embers {

// A reusable array: grows by half when it must, never shrinks, never initialises its elements. 64-byte
// aligned. T is trivial. Movable, not copyable.
template <class T>
class Scratch {
 public:
  // The first `size` elements; what they held is lost when the array had to grow.
  std::span<T> take(size_t size) {
    if (size > capacity_) {
      capacity_ = size + size / 2;
      data_.reset();
      data_.reset(static_cast<T*>(std::aligned_alloc(64, (capacity_ * sizeof(T) + 63) / 64 * 64)));
      if (!data_) {
        capacity_ = 0;
        throw std::bad_alloc();
      }
    }
    return {data_.get(), size};
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t capacity_ = 0;
};

}  // namespace embers
