#pragma once

#include <absl/base/thread_annotations.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace embers {

// std::mutex for clang's -Wthread-safety (tests/thread_safety.sh): a member with ABSL_GUARDED_BY(mutex_) may
// only be touched while a MutexLock of it is held, or the check fails. Not absl::Mutex: ThreadSanitizer
// cannot see into the distribution's library.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex for its whole lifetime, except between unlock() and lock().
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  // Releases the mutex until `changed` is notified, or until it wakes up spuriously: wait in a loop that
  // checks again. (In a predicate, clang would not know that the mutex is held.)
  void wait(std::condition_variable& changed) { changed.wait(lock_); }
  // As wait(), and also returns at the deadline: false when time is up.
  bool wait_until(std::condition_variable& changed, std::chrono::steady_clock::time_point deadline) {
    return changed.wait_until(lock_, deadline) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace embers
