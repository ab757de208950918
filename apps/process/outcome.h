#pragma once

#include <chrono>
#include <condition_variable>
#include <optional>

#include "base/mutex.h"

namespace embers {

// What a process waits for until its job has ended: given once (later ones are dropped), by any thread. Not
// std::future, which waits by a bare system call: ThreadSanitizer holds a signal back until that returns.
template <class T>
class Outcome {
 public:
  void give(T value) {
    const MutexLock lock(mutex_);
    if (!value_) value_ = std::move(value);
    given_.notify_all();
  }
  bool comes_within(std::chrono::duration<double> most) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(most);
    MutexLock lock(mutex_);
    while (!value_ && lock.wait_until(given_, deadline)) {
    }
    return value_.has_value();
  }
  T wait() {
    MutexLock lock(mutex_);
    while (!value_) lock.wait(given_);
    return *value_;
  }

 private:
  Mutex mutex_;
  std::condition_variable given_;
  std::optional<T> value_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embers
