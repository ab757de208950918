#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "actors/frames/frame.h"
#include "actors/transport/connections/byte_budget.h"
#include "base/mutex.h"

namespace embers {

// Bytes of messages that are on their way through a process; README.md, "Back-pressure", has the whole. A
// message of more than a limit passes alone.
struct FlowLimits {
  // Requests of peers, from the first byte until they are answered.
  size_t arriving = size_t{2} << 30;
  size_t arriving_per_connection = size_t{256} << 20;
  // What waits to be written.
  size_t leaving = size_t{2} << 30;
  size_t leaving_per_connection = size_t{256} << 20;
};

// (Small requests, kSmallWords, are not counted in bytes: Connection::kMaxInFlight bounds them.)

// One request of up to this size may always arrive over a connection, whatever others keep in the process: so
// heartbeats never wait behind a neighbour's rows.
inline constexpr size_t kAlwaysBytes = kChunkWords * sizeof(capnp::word);

// What all connections of a process have in common.
//
// *Thread safety*: all members from any thread.
class Flow {
 public:
  explicit Flow(const FlowLimits& limits = {})
      : limits_(limits), arriving_(std::make_shared<ByteBudget>(limits.arriving)) {}

  const FlowLimits& limits() const { return limits_; }
  const std::shared_ptr<ByteBudget>& arriving() const { return arriving_; }

  // Bytes that wait to be written.
  void leave(size_t bytes);
  void left(size_t bytes);
  bool has_room() const { return leaving_ < limits_.leaving; }
  size_t most_leaving() const { return most_leaving_; }  // at any time
  // `room` is called, once, when some have left.
  void when_left(std::function<void()> room);

 private:
  const FlowLimits limits_;
  const std::shared_ptr<ByteBudget> arriving_;
  std::atomic<size_t> leaving_ = 0, most_leaving_ = 0;
  std::atomic<bool> somebody_waits_ = false;
  Mutex mutex_;
  std::vector<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embers
