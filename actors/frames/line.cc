#include "actors/frames/line.h"

#include <algorithm>
#include <utility>

namespace embers {

// The arrival of a request, which ends the mark as well.
class Line::Mark final : public Arrival {
 public:
  Mark(std::shared_ptr<Marks> marks, std::shared_ptr<Arrival> arrival)
      : marks_(std::move(marks)), arrival_(std::move(arrival)) {
    ++marks_->open;
  }
  ~Mark() override { end(); }

  void settle() override {
    end();
    if (arrival_) arrival_->settle();
  }
  bool has_room(const std::function<void()>& room) override { return !arrival_ || arrival_->has_room(room); }
  WordsMemoryPtr memory() override { return arrival_ ? arrival_->memory() : nullptr; }

 private:
  void end() {
    if (ended_.exchange(true)) return;
    --marks_->open;
    marks_->on_turn();
  }

  const std::shared_ptr<Marks> marks_;
  const std::shared_ptr<Arrival> arrival_;
  std::atomic<bool> ended_ = false;
};

void Line::go(InFrame& frame) {
  if (++since_mark_ < kBatch) return;
  since_mark_ = 0;
  frame.arrival = std::make_shared<Mark>(marks_, std::move(frame.arrival));
}

// At most what may go before the next mark: the caller gives them one after another, and asks again.
std::vector<HeldRequest> Line::next() {
  std::vector<HeldRequest> next;
  if (!may_go()) return next;
  const size_t count = std::min(waiting_.size(), kBatch - since_mark_);
  next.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const HeldRequest& request = next.emplace_back(std::move(waiting_.front()));
    waiting_.pop_front();
    // What the first steps with it touch has left the caches: all of them come at once, not one after
    // another.
    __builtin_prefetch(request.frame.words.data());
    __builtin_prefetch(request.session.get());
    if (request.session) __builtin_prefetch(request.session->get());
  }
  return next;
}

std::vector<HeldRequest> Line::take(const caf::strong_actor_ptr& session) {
  std::vector<HeldRequest> taken;
  const auto is_of_it = [&](const HeldRequest& request) { return request.session == session; };
  for (HeldRequest& request : waiting_)
    if (is_of_it(request)) taken.push_back({session, std::move(request.frame)});
  if (!taken.empty()) std::erase_if(waiting_, is_of_it);
  return taken;
}

}  // namespace embers
