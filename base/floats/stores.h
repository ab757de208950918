#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "base/mutex.h"

namespace embers {

// How floats are written that another core reads next: into this core's caches, or around all caches.
//
// A line that another core has just read must first be fetched from it before it can be written in a cache.
// Where both cores share a cache, that costs nothing; where they do not (chiplets, sockets), it takes several
// times as long as the copy itself, and memory is the shorter way.
enum class Stores { kCached, kAround };

// Which of them takes less time here. Nobody can ask a virtual machine which caches its cores share, and
// threads move, so it is tried again and again: one message of kTryEvery is written the other way.
//
// *Thread safety*: all members from any thread.
class StoreChoice {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr size_t kRemembered = 7;  // messages of each way, whose median counts
  static constexpr size_t kTryEvery = 31;
  // What the reader loses at most by reading from memory, ns a byte: 16 GB/s. Around the caches is taken only
  // if it saves more, and given up when it saves less than half of that.
  static constexpr double kReadersLoss = 0.06;

  // How the next message is to be written.
  Stores next();
  // How long it took to write so many bytes so, with all that does not depend on the way.
  void took(Stores stores, size_t bytes, Duration duration);

 private:
  struct Times {
    std::array<double, kRemembered> ns_a_byte{};
    size_t count = 0;
    double median() const;
  };
  Mutex mutex_;
  std::array<Times, 2> times_ ABSL_GUARDED_BY(mutex_);  // by Stores
  Stores better_ ABSL_GUARDED_BY(mutex_) = Stores::kCached;
  size_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace embers
