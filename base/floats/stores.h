#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

#include "base/mutex.h"

namespace embers {

// How floats are written that another core reads next: into this core's caches, or around all caches.
//
// A line that another core has just read must first be fetched from it before it can be written in a cache.
// Where both cores share a cache, that costs nothing; where they do not (chiplets, sockets), it takes several
// times as long as the copy itself, and memory is the shorter way.
enum class Stores { kCached, kAround };

// Which of them takes less time, for copies of one kind. Nobody can ask a virtual machine which caches its
// cores share, and threads move, so it goes on trying: now and then a copy is made the other way, and
// compared with those before it.
//
// *Thread safety*: all members from any thread.
class StoreChoice {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr size_t kLeastBytes = size_t{64} << 10;  // smaller copies are made in the caches
  static constexpr size_t kRemembered = 7;                 // copies, or tries, whose median counts
  // Copies between two tries. The first kRemembered, and those after a change, follow sooner.
  static constexpr size_t kBetweenTries = 31, kBetweenFirstTries = 4;
  // Around the caches is taken where copies into them take so many times as long, and given up where they
  // take less than kGivenUpAt: the reader, who reads from memory then, may lose as much as a copy takes. A
  // copy of what lies in memory itself gains less, and slows other work on memory.
  static constexpr double kTakenAt = 2.5, kGivenUpAt = 2;

  // How the next copy is to be made.
  Stores next();
  // How long it took to copy so many bytes so.
  void took(Stores stores, size_t bytes, Duration duration);

 private:
  struct Median {
    std::array<double, kRemembered> values{};
    size_t count = 0;
    void add(double value) { values[count++ % kRemembered] = value; }
    std::optional<double> get() const;  // none before kRemembered values
  };
  Mutex mutex_;
  Stores better_ ABSL_GUARDED_BY(mutex_) = Stores::kCached;
  Median ns_a_byte_ ABSL_GUARDED_BY(mutex_);  // of copies made the better way
  Median ratio_ ABSL_GUARDED_BY(mutex_);      // of each try: how many times as long it takes in the caches
  size_t since_try_ ABSL_GUARDED_BY(mutex_) = 0;
};

// copy(stores), which copies so many bytes, as `choice` says; nullptr: in the caches.
template <class Copy>
void copy_by(StoreChoice* choice, size_t bytes, Copy&& copy) {
  if (choice == nullptr || bytes < StoreChoice::kLeastBytes) return copy(Stores::kCached);
  const Stores stores = choice->next();
  const auto begin = std::chrono::steady_clock::now();
  copy(stores);
  choice->took(stores, bytes, std::chrono::steady_clock::now() - begin);
}

}  // namespace embers
