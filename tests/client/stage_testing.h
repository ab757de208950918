#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/work.h"
#include "tests/support/actors.h"

namespace embers::testing_support {

// What comes out of a stage, as it comes. Any thread.
template <class T>
class Arrivals {
 public:
  void add(const T& value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(value);
    changed_.notify_all();
  }
  // All of them, once there are this many; or what has come after 20 s.
  std::vector<T> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return values_.size() >= count; });
    return values_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> values_;
};

using Finished = Arrivals<WorkPtr>;
using Failures = Arrivals<StageFailure>;

// The stage after the one that is tested.
inline StageActor::behavior_type collector(StageActor::pointer, std::shared_ptr<Finished> finished) {
  return {[finished](const WorkPtr& work) { finished->add(work); }};
}

inline StageOwner::behavior_type note_failures(StageOwner::pointer, std::shared_ptr<Failures> failures) {
  return {[](const WorkPtr&) {}, [failures](const StageFailure& f) { failures->add(f); }};
}

}  // namespace embers::testing_support
