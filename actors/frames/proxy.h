#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/frames/frame.h"
#include "base/mutex.h"

namespace embers {

class FrameLink;

// A remote actor as the actors of this process see it. It has no mailbox and no thread: a request is written
// to the link in the asker's own thread, and its answer goes from the io thread straight into the asker's
// mailbox, which saves two mailboxes and two wake-ups per round trip.
//
// *Thread safety*: all members from any thread.
// Invariants: (1) every request is answered, by its reply, by an error, or by the reason why the link ended;
// (2) after the proxy's end (cleanup) every request is answered with the reason for it.
class Proxy final : public caf::monitorable_actor {
 public:
  // A request on its way out, and the function that turns its reply's frame into a message (it throws Error
  // for any other frame).
  struct Request {
    OutFrame frame;
    caf::message (*read_reply)(InFrame&);
  };
  // Takes the request out of a message; nothing if it is not part of the interface.
  using ReadRequest = std::optional<Request> (*)(const caf::type_erased_tuple&, Destination, uint64_t);

  Proxy(caf::actor_config& config, std::shared_ptr<FrameLink> link, Destination destination, ReadRequest read)
      : monitorable_actor(config), link_(std::move(link)), destination_(destination), read_(read) {}

  const char* name() const override { return "proxy"; }
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override;
  // Answers every open request with the reason, and tells those that monitor the proxy.
  bool cleanup(caf::error&& reason, caf::execution_unit* host) override;
  void on_destroy() override;

  void receive(InFrame& frame);  // a reply
  // What was asked before the link's connection of this number is asked again, in order (a link that is
  // kept).
  std::vector<OutFrame> ask_again(uint64_t connection);
  void end_link(const Error& why);

 private:
  struct Open {
    caf::strong_actor_ptr asker;
    caf::message_id id;  // of the answer
    caf::message (*read_reply)(InFrame&);
    uint64_t connection;  // that it is sent over: which one of the link's
    OutFrame frame;       // to be asked again, if the link is kept
  };

  const std::shared_ptr<FrameLink> link_;
  const Destination destination_;
  const ReadRequest read_;
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, Open> open_ ABSL_GUARDED_BY(mutex_);  // by correlation
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  caf::error reason_ ABSL_GUARDED_BY(mutex_);  // of the end
};

namespace detail {

template <class T>
caf::message read_reply(InFrame& frame) {
  return caf::make_message(decode<typename KindOf<T>::Reply>(frame));
}

template <class I>
struct RequestsOf;
template <class... Requests>
struct RequestsOf<Interface<MessageList<Requests...>>> {
  static std::optional<Proxy::Request> read(const caf::type_erased_tuple& content, Destination destination,
                                            uint64_t correlation) {
    std::optional<Proxy::Request> request;
    const auto try_one = [&]<class T>() {
      if (!content.match_elements<Message<T>>()) return false;
      request = {out_frame(content.get_as<Message<T>>(0), destination, correlation, 0), read_reply<T>};
      return true;
    };
    (try_one.template operator()<Requests>() || ...);
    return request;
  }
};

// Made once (proxy.cc) instead of in every file that uses them.
extern template struct RequestsOf<MasterInterface>;
extern template struct RequestsOf<OptimizerInterface>;
extern template struct RequestsOf<ShardInterface>;

}  // namespace detail

}  // namespace embers
