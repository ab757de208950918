#include "base/floats/stores.h"

#include <algorithm>

namespace embers {

std::optional<double> StoreChoice::Median::get() const {
  if (count < kRemembered) return std::nullopt;
  std::array<double, kRemembered> sorted = values;
  const auto middle = sorted.begin() + kRemembered / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

Stores StoreChoice::next() {
  const MutexLock lock(mutex_);
  if (!ns_a_byte_.get()) return better_;
  if (++since_try_ < (ratio_.get() ? kBetweenTries : kBetweenFirstTries)) return better_;
  since_try_ = 0;
  return better_ == Stores::kCached ? Stores::kAround : Stores::kCached;
}

void StoreChoice::took(Stores stores, size_t bytes, Duration duration) {
  const double ns = std::max(1.0, static_cast<double>(duration.count())) / static_cast<double>(bytes);
  const MutexLock lock(mutex_);
  if (stores == better_) return ns_a_byte_.add(ns);
  const auto before = ns_a_byte_.get();
  if (!before) return;  // another thread's, of before a change
  ratio_.add(better_ == Stores::kCached ? *before / ns : ns / *before);
  const auto ratio = ratio_.get();
  if (!ratio || (better_ == Stores::kCached ? *ratio <= kTakenAt : *ratio >= kGivenUpAt)) return;
  better_ = stores;
  ns_a_byte_ = {};
  ratio_ = {};
}

}  // namespace embers
