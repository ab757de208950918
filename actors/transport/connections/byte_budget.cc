#include "actors/transport/connections/byte_budget.h"

#include <algorithm>
#include <vector>

namespace embers {

std::optional<ByteBudget::Share> ByteBudget::take(size_t bytes, Granted granted) {
  const MutexLock lock(mutex_);
  if (!waiting_.empty() || !fits(bytes)) {
    waiting_.push_back({bytes, std::move(granted)});
    return std::nullopt;
  }
  add(bytes);
  return Share(shared_from_this(), bytes);
}

ByteBudget::Share ByteBudget::take_at_once(size_t bytes) {
  const MutexLock lock(mutex_);
  add(bytes);
  return {shared_from_this(), bytes};
}

void ByteBudget::add(size_t bytes) {
  taken_ += bytes;
  most_ = std::max(most_, taken_);
}

void ByteBudget::give_back(size_t bytes) {
  std::vector<Waiting> served;
  {
    const MutexLock lock(mutex_);
    taken_ -= bytes;
    for (; !waiting_.empty() && fits(waiting_.front().bytes); waiting_.pop_front()) {
      add(waiting_.front().bytes);
      served.push_back(std::move(waiting_.front()));
    }
  }
  for (Waiting& next : served) next.granted(Share(shared_from_this(), next.bytes));
}

size_t ByteBudget::taken() const {
  const MutexLock lock(mutex_);
  return taken_;
}

size_t ByteBudget::most_taken() const {
  const MutexLock lock(mutex_);
  return most_;
}

}  // namespace embers
