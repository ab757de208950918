#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace embers {

// An array of floats, uninitialised, 64-byte aligned (so that vector kernels see the same alignment in every
// process). Movable, not copyable.
class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(size_t size) : size_(size), room_(size) {
    if (size == 0) return;
    data_.reset(static_cast<float*>(std::aligned_alloc(64, (size * sizeof(float) + 63) / 64 * 64)));
    if (!data_) throw std::bad_alloc();
  }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  size_t size() const { return size_; }
  // Floats that its memory has room for: as many as it was made with.
  size_t room() const { return room_; }
  // Sets its length, without touching what it holds; size <= room().
  void fit(size_t size) { size_ = size; }
  std::span<float> span() { return {data_.get(), size_}; }
  std::span<const float> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float[], Free> data_;
  size_t size_ = 0, room_ = 0;
};

}  // namespace embers
