#include "actors/transport/connections/flow.h"

namespace embers {

void Flow::leave(size_t bytes) {
  const size_t now = leaving_ += bytes;
  for (size_t most = most_leaving_; most < now && !most_leaving_.compare_exchange_weak(most, now);) {
  }
}

void Flow::left(size_t bytes) {
  leaving_ -= bytes;
  if (!somebody_waits_.exchange(false)) return;
  std::vector<std::function<void()>> served;
  {
    const MutexLock lock(mutex_);
    served.swap(waiting_);
  }
  for (const auto& room : served) room();
}

void Flow::when_left(std::function<void()> room) {
  const MutexLock lock(mutex_);
  waiting_.push_back(std::move(room));
  somebody_waits_ = true;
}

}  // namespace embers
