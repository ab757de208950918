#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/forks.h"

namespace embers::python {

// What of a kind this process has, so that it can be ended with the program although it is nobody's any more.
// A forked child has nothing of its parent's.
//
// *Thread safety*: all members from any thread.
template <class T>
class Living {
 public:
  // Never destroyed: threads use it until the process has gone.
  static Living& here() {
    static std::atomic<Living*> current = new Living;
    Living* found = current;
    if (found->generation_ == fork_generation()) return *found;
    auto* const fresh = new Living;
    if (current.compare_exchange_strong(found, fresh)) return *fresh;
    delete fresh;
    return *found;
  }

  void add(const std::shared_ptr<T>& one) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& weak) { return weak.expired(); });
    known_.push_back(one);
  }
  std::vector<std::shared_ptr<T>> all() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> alive;
    for (const auto& weak : known_)
      if (auto one = weak.lock()) alive.push_back(std::move(one));
    return alive;
  }

 private:
  Living() = default;

  const uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  std::vector<std::weak_ptr<T>> known_;
};

}  // namespace embers::python
