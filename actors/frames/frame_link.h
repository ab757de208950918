#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/frames/frame_connection.h"
#include "actors/frames/proxy.h"
#include "base/mutex.h"

namespace embers {

// A client's proxies of the actors of one peer, and what becomes of their requests before, between and after
// the connections to that peer. Making connections is left to the derived class: Link (client.h) has sockets,
// tests simulate them.
//
// A link that is *kept* outlives its connection: what has no answer yet is asked again over the next one, by
// each proxy in the order of asking. So whatever is asked through it must have the same effect asked twice as
// asked once.
//
// *Thread safety*: public members from any thread; protected ones in the thread to which post() gives work.
// Invariant: a request is sent at most once over each connection.
class FrameLink : public std::enable_shared_from_this<FrameLink> {
 public:
  virtual ~FrameLink() = default;

  // A local actor with the interface of the remote one.
  template <class I>
  typename I::Actor proxy(Destination destination);

  // Before the first request.
  void keep() { kept_ = true; }
  bool is_kept() const { return kept_; }
  // Counts the connections of a link that is kept.
  uint64_t connection() const { return number_; }
  // A request made at the time of that connection; it waits if the connection is not open yet. It is not sent
  // when that one is gone: a kept link asks again.
  void send(OutFrame frame, uint64_t connection);
  // Ends the connection and the link: every open request is answered with the reason.
  virtual void close(const Error& why) = 0;

 protected:
  explicit FrameLink(caf::actor_system& system) : system_(system) {}

  // Runs `work` in the link's thread. Returns false if that has ended.
  virtual bool post(std::function<void()> work) = 0;

  // The connection takes frames from now on: first what is asked again, then what has waited.
  void use(const std::shared_ptr<FrameConnection>& connection);
  // The connection is gone, and another one will come.
  void disconnected();
  // A reply. kBadFrame if no proxy can have asked for it.
  void deliver(InFrame& frame);
  // No connection will come any more.
  void end(const Error& why);

 private:
  caf::strong_actor_ptr add_proxy(Destination destination, Proxy::ReadRequest read);

  caf::actor_system& system_;
  std::atomic<bool> kept_ = false;
  std::atomic<uint64_t> number_ = 0;  // changed under mutex_

  // In the link's thread.
  std::unordered_map<uint16_t, caf::strong_actor_ptr> proxies_;
  std::optional<Error> reason_;  // of the end

  Mutex mutex_;
  // Frames go to open_ while there is a connection, and to waiting_ before that.
  std::shared_ptr<FrameConnection> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<OutFrame> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

template <class I>
typename I::Actor FrameLink::proxy(Destination destination) {
  return caf::actor_cast<typename I::Actor>(add_proxy(destination, detail::RequestsOf<I>::read));
}

}  // namespace embers
