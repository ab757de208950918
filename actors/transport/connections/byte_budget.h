#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"

namespace embers {

// A bound on bytes in memory that several askers share. Whoever asks for more than is left waits, and is
// served in the order of asking. Whoever asks for more than there is in all gets it when nobody has anything:
// nothing is too large for ever.
//
// *Thread safety*: all members from any thread.
class ByteBudget : public std::enable_shared_from_this<ByteBudget> {
 public:
  // Bytes that somebody has; its end gives them back.
  class Share {
   public:
    Share() = default;
    Share(std::shared_ptr<ByteBudget> of, size_t bytes) : of_(std::move(of)), bytes_(bytes) {}
    Share(Share&& other) noexcept = default;
    Share& operator=(Share&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (of_) of_->give_back(bytes_);
    }

   private:
    std::shared_ptr<ByteBudget> of_;
    size_t bytes_ = 0;
  };
  using Granted = std::function<void(Share)>;

  explicit ByteBudget(size_t limit) : limit_(limit) {}

  // A share, or nothing: then `granted` gets it later, in the thread that gives bytes back.
  std::optional<Share> take(size_t bytes, Granted granted);
  // Whatever is left.
  Share take_at_once(size_t bytes);

  size_t taken() const;
  size_t most_taken() const;  // at any time

 private:
  struct Waiting {
    size_t bytes;
    Granted granted;
  };
  bool fits(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return taken_ == 0 || (taken_ <= limit_ && bytes <= limit_ - taken_);
  }
  void add(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void give_back(size_t bytes);

  const size_t limit_;
  mutable Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embers
