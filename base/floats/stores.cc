#include "base/floats/stores.h"

#include <algorithm>

namespace embers {
namespace {

Stores other(Stores stores) { return stores == Stores::kCached ? Stores::kAround : Stores::kCached; }

}  // namespace

double StoreChoice::Times::median() const {
  std::array<double, kRemembered> sorted = ns_a_byte;
  const auto middle = sorted.begin() + kRemembered / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

Stores StoreChoice::next() {
  const MutexLock lock(mutex_);
  if (++asked_ % kTryEvery == 0 || (asked_ <= 2 * kRemembered && asked_ % 2 == 0)) return other(better_);
  return better_;
}

void StoreChoice::took(Stores stores, size_t bytes, Duration duration) {
  if (bytes == 0) return;
  const MutexLock lock(mutex_);
  Times& times = times_[static_cast<size_t>(stores)];
  times.ns_a_byte[times.count++ % kRemembered] =
      static_cast<double>(duration.count()) / static_cast<double>(bytes);
  const Times &cached = times_[static_cast<size_t>(Stores::kCached)],
              &around = times_[static_cast<size_t>(Stores::kAround)];
  if (cached.count < kRemembered || around.count < kRemembered) return;
  const double saved = cached.median() - around.median();
  if (saved > kReadersLoss) better_ = Stores::kAround;
  if (saved < kReadersLoss / 2) better_ = Stores::kCached;
}

}  // namespace embers
