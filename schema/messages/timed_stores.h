#pragma once

#include <chrono>

#include "schema/messages/message.h"

namespace embers {

inline constexpr size_t kLargeFloats = size_t{64} << 10;  // bytes; fewer are written into caches

// While the floats of a message that another thread or process reads are written: how they are to be written,
// and how long it took.
class TimedStores {
 public:
  // `choice` may be null; `bytes` of float32 are to be written.
  TimedStores(StoreChoice* choice, size_t bytes)
      : choice_(bytes < kLargeFloats ? nullptr : choice),
        bytes_(bytes),
        stores_(choice_ == nullptr ? Stores::kCached : choice_->next()),
        begin_(choice_ == nullptr ? Clock::time_point() : Clock::now()) {}
  ~TimedStores() {
    if (choice_ != nullptr) choice_->took(stores_, bytes_, Clock::now() - begin_);
  }
  TimedStores(const TimedStores&) = delete;
  TimedStores& operator=(const TimedStores&) = delete;

  operator Stores() const { return stores_; }

 private:
  using Clock = std::chrono::steady_clock;
  StoreChoice* const choice_;
  const size_t bytes_;
  const Stores stores_;
  const Clock::time_point begin_;
};

}  // namespace embers
