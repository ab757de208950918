#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace embers {

// What a process waits for until its job has ended: given once (later ones are dropped), by any thread. Not
// std::future, which waits by a bare system call: ThreadSanitizer holds a signal back until that returns.
template <class T>
class Outcome {
 public:
  void give(T value) {
    const std::lock_guard lock(mutex_);
    if (!value_) value_ = std::move(value);
    given_.notify_all();
  }
  bool comes_within(std::chrono::seconds most) {
    std::unique_lock lock(mutex_);
    return given_.wait_for(lock, most, [&] { return value_.has_value(); });
  }
  T wait() {
    std::unique_lock lock(mutex_);
    given_.wait(lock, [&] { return value_.has_value(); });
    return *value_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::optional<T> value_;
};

}  // namespace embers
