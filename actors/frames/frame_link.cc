#include "actors/frames/frame_link.h"

#include "actors/errors.h"

namespace embers {
namespace {

Proxy& as_proxy(const caf::strong_actor_ptr& actor) { return static_cast<Proxy&>(*actor->get()); }

}  // namespace

caf::strong_actor_ptr FrameLink::add_proxy(Destination destination, Proxy::ReadRequest read) {
  caf::actor_config config;
  auto proxy = caf::make_actor<Proxy, caf::strong_actor_ptr>(
      system_.next_actor_id(), system_.node(), &system_, config, shared_from_this(), destination, read);
  const bool will_run = post([self = shared_from_this(), destination, proxy] {
    if (self->reason_)
      as_proxy(proxy).cleanup(to_caf(*self->reason_), nullptr);
    else
      self->proxies_[static_cast<uint16_t>(destination)] = proxy;
  });
  if (!will_run)
    as_proxy(proxy).cleanup(to_caf(Error(ErrorCode::kUnavailable, "this process is ending")), nullptr);
  return proxy;
}

void FrameLink::send(OutFrame frame, uint64_t connection) {
  std::shared_ptr<FrameConnection> to;
  {
    const MutexLock lock(mutex_);
    if (ended_ || connection != number_) return;
    if (!open_) return waiting_.push_back(std::move(frame));
    to = open_;
  }
  to->send(std::move(frame));
}

void FrameLink::use(const std::shared_ptr<FrameConnection>& connection) {
  for (const auto& [destination, proxy] : proxies_)
    for (OutFrame& f : as_proxy(proxy).ask_again(number_)) connection->send(std::move(f));
  const MutexLock lock(mutex_);  // no frame overtakes those that wait
  for (OutFrame& f : waiting_) connection->send(std::move(f));
  waiting_.clear();
  open_ = connection;
}

void FrameLink::disconnected() {
  const MutexLock lock(mutex_);
  open_.reset();
  waiting_.clear();
  ++number_;  // proxies have what waited, too, and ask again
}

void FrameLink::deliver(InFrame& frame) {
  const auto proxy = proxies_.find(frame.header.destination);
  if (proxy == proxies_.end() || !frame.reply())
    fail(ErrorCode::kBadFrame, "a frame arrived for destination {}, which expects none",
         frame.header.destination);
  as_proxy(proxy->second).receive(frame);
}

void FrameLink::end(const Error& why) {
  reason_ = why;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    open_.reset();
    waiting_.clear();
  }
  for (const auto& [destination, proxy] : std::exchange(proxies_, {}))
    as_proxy(proxy).cleanup(to_caf(why), nullptr);
}

}  // namespace embers
