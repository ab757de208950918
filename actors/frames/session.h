#pragma once

#include <optional>
#include <vector>

#include "actors/frames/frame_connection.h"
#include "base/mutex.h"

namespace embers {

// A peer as the actors that serve it see it: the sender of its requests, whose end is the peer's. It has no
// mailbox and no thread: a request goes from the io thread straight into the served actor's mailbox, and the
// answer is written to the connection in that actor's thread.
//
// *Thread safety*: all members from any thread.
class Session final : public caf::monitorable_actor {
 public:
  // `address` is the peer's, for messages.
  Session(caf::actor_config& config, std::shared_ptr<FrameConnection> connection, wire::Role role,
          std::string address)
      : monitorable_actor(config),
        connection_(std::move(connection)),
        role_(role),
        address_(std::move(address)) {}

  const char* name() const override { return "session"; }
  wire::Role role() const { return role_; }
  const std::string& address() const { return address_; }
  // Takes answers.
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override;

  // Asks `actor` on the peer's behalf; its answer, a Message of T's reply or an error, goes to the peer under
  // the correlation of `header`.
  template <class T, class Actor>
  void ask(const Actor& actor, const FrameHeader& header, Message<T> question);
  // A request that is malformed, or that the peer may not send, ends its connection.
  void answer_error(const FrameHeader& request, const Error& error);

 private:
  // The frame of an answer; nothing if the answer is of another type.
  using MakeFrame = std::optional<OutFrame> (*)(const caf::type_erased_tuple&, const FrameHeader& request);
  struct Open {
    uint64_t id;
    FrameHeader request;
    MakeFrame make_frame;
    std::shared_ptr<Arrival> arrival;  // of the request
  };
  template <class Reply>
  static std::optional<OutFrame> make_frame(const caf::type_erased_tuple& content,
                                            const FrameHeader& request);
  // Remembers a question, and returns the id under which its answer will come.
  caf::message_id remember(const FrameHeader& request, MakeFrame make_frame,
                           std::shared_ptr<Arrival> arrival);

  const std::shared_ptr<FrameConnection> connection_;
  const wire::Role role_;
  const std::string address_;
  Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  // In the order of asking, which is that of their ids, and mostly that of their answers. Few, and beside
  // each other: a master's thousands of peers each have their own.
  std::vector<Open> open_ ABSL_GUARDED_BY(mutex_);
};

caf::strong_actor_ptr make_session(caf::actor_system& system, std::shared_ptr<FrameConnection> connection,
                                   wire::Role role, std::string address);

// What is answered at once, and is not to wait behind the thousands of requests that a master may have before
// it. It may overtake other requests of its peer.
inline bool is_urgent(wire::Role sender, Kind kind) {
  return kind == Kind::kHeartbeatRequest || sender == wire::Role::ADMIN;
}

template <class T, class Actor>
void Session::ask(const Actor& actor, const FrameHeader& header, Message<T> question) {
  caf::message_id id = remember(header, make_frame<typename KindOf<T>::Reply>, question.arrival());
  if (is_urgent(role_, KindOf<T>::kind)) id = id.with_high_priority();
  caf::actor_cast<caf::abstract_actor*>(actor)->eq_impl(id, caf::strong_actor_ptr(ctrl()), nullptr,
                                                        std::move(question));
}

template <class Reply>
std::optional<OutFrame> Session::make_frame(const caf::type_erased_tuple& content,
                                            const FrameHeader& request) {
  if (!content.match_elements<Message<Reply>>()) return std::nullopt;
  return out_frame(content.get_as<Message<Reply>>(0), static_cast<Destination>(request.destination),
                   request.correlation, FrameHeader::kReply);
}

}  // namespace embers
