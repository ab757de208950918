#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "actors/frames/frame.h"

namespace embers {

// A request that is not given to its actor yet, and its peer.
struct HeldRequest {
  caf::strong_actor_ptr session;
  InFrame frame;
};

// Where requests of an actor wait that thousands of peers ask at once. A message in a mailbox is several
// pieces of memory. Behind thousands of others, none of them is in a cache any more when its turn comes. So
// the mailbox gets a few at a time, and the others wait here as they came over the wire.
//
// The last one of each batch that goes into the mailbox is marked. When the actor has taken it up, the next
// batch may go. So the actor must answer or settle (Arrival::settle) each request when it takes it up.
//
// *Thread safety*: none, but for marks, which may end in any thread.
class Line {
 public:
  static constexpr size_t kBatch = 32, kBatches = 2;  // in the mailbox, about

  // `on_turn` is called in any thread when others may go.
  explicit Line(std::function<void()> on_turn) : marks_(std::make_shared<Marks>(std::move(on_turn))) {}

  // Whether one that comes now may go at once.
  bool is_short() const { return waiting_.empty() && may_go(); }
  void wait(HeldRequest request) { waiting_.push_back(std::move(request)); }
  // The request goes into the mailbox.
  void go(InFrame& frame);
  // Those whose turn has come, in the order in which they came.
  std::vector<HeldRequest> next();
  // Those of one peer, whose connection has ended.
  std::vector<HeldRequest> take(const caf::strong_actor_ptr& session);

 private:
  class Mark;
  struct Marks {
    explicit Marks(std::function<void()> f) : on_turn(std::move(f)) {}
    const std::function<void()> on_turn;
    std::atomic<size_t> open = 0;
  };
  bool may_go() const { return marks_->open < kBatches; }

  const std::shared_ptr<Marks> marks_;
  std::deque<HeldRequest> waiting_;
  size_t since_mark_ = 0;
};

}  // namespace embers
