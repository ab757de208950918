#pragma once

#include <chrono>
#include <unordered_map>
#include <vector>

#include "actors/errors.h"
#include "actors/transport/transport.h"

namespace embers {

// What a client says of itself in the handshake; see schema/handshake.capnp.
struct HelloInfo {
  uint64_t job = 0;
  wire::Channel channel = wire::Channel::CONTROL;
  uint64_t incarnation = 0;
};

// The end of a link, told to its proxies.
struct LinkDown {
  ErrorCode code;
  std::string message;
};

// The client's end of a connection to a peer's server. Connects in the background, trying the endpoints in
// turn with growing pauses until the time is up; what is sent meanwhile waits. When it cannot connect, is
// refused, or the connection ends, every proxy answers its open requests with the reason and quits with it
// (so monitor proxies to notice).
//
// *Thread safety*: send, attach, close and finish from any thread.
class Link : public std::enable_shared_from_this<Link> {
 public:
  static std::shared_ptr<Link> open(Transport& transport, std::vector<Endpoint> endpoints,
                                    const HelloInfo& hello, std::chrono::duration<double> timeout);

  // A local actor with the interface of the remote one.
  template <class I>
  typename I::Actor proxy(Destination destination);

  void send(OutFrame frame);
  void close(const Error& why);
  // Sends what is queued, then ends the connection; without one stops connecting.
  void finish();
  const std::string& peer() const { return peer_; }  // all its endpoints, for messages

 private:
  Link(Transport& transport, std::vector<Endpoint> endpoints, const HelloInfo& hello);
  void attach(Destination destination, caf::strong_actor_ptr proxy);

  // All below on the io thread.
  void try_next();
  void connect_tcp(const Endpoint& endpoint);
  void connect_unix(const Endpoint& endpoint);
  void connected(Connection::Socket socket);
  void retry(const std::string& why);
  void give_up();
  void unreachable(const std::string& why);
  void receive(InFrame frame);
  void refused(InFrame& frame);
  void down(const Error& why);

  const std::shared_ptr<EventLoop> loop_;  // before all that is on it
  Transport& transport_;
  const std::vector<Endpoint> endpoints_;
  const HelloInfo hello_;
  const std::string peer_;
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::duration<double> timeout_{};
  boost::asio::steady_timer timer_;          // the pause between two attempts
  boost::asio::steady_timer give_up_timer_;  // until the welcome
  boost::asio::ip::tcp::resolver resolver_;
  size_t attempt_ = 0;
  std::function<void()> cancel_;  // of the attempt under way
  std::shared_ptr<Connection> connection_;
  bool welcomed_ = false;
  bool down_ = false;
  std::string reason_;  // of the end, once down
  ErrorCode reason_code_ = ErrorCode::kUnavailable;
  std::vector<OutFrame> waiting_;
  std::unordered_map<uint16_t, caf::strong_actor_ptr> proxies_;
};

// --- proxies -------------------------------------------------------------------------------------

struct ProxyState {
  ProxyState() = default;  // no aggregate: see actors/README.md
  std::shared_ptr<Link> link;
  Destination destination{};
  uint64_t last = 0;
  struct Pending {
    std::function<void(InFrame&)> reply;  // throws Error for a frame that is no such reply
    std::function<void(const caf::error&)> fail;
  };
  std::unordered_map<uint64_t, Pending> pending;  // by correlation
  static inline const char* name = "proxy";

  uint64_t next_correlation() { return static_cast<uint64_t>(destination) << 48 | ++last; }
  void receive(InFrame& frame);
  void fail_all(const caf::error& why);
};

}  // namespace embers

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(embers::LinkDown)

namespace embers {

template <class Actor>
using ProxyActor = typename Actor::template extend<caf::reacts_to<InFrame>, caf::reacts_to<LinkDown>>;

// The handler of one request type: sends it and remembers whom to answer.
template <class T, class Self>
auto forward(Self self) {
  using Reply = typename KindOf<T>::Reply;
  return [self](const Message<T>& m) -> caf::result<Message<Reply>> {
    auto promise = self->template make_response_promise<Message<Reply>>();
    ProxyState& state = self->state;
    const uint64_t id = state.next_correlation();
    state.pending.emplace(
        id, ProxyState::Pending{[promise](InFrame& f) mutable { promise.deliver(decode<Reply>(f)); },
                                [promise](const caf::error& e) mutable { promise.deliver(e); }});
    state.link->send(out_frame(m, state.destination, id, 0));
    return promise;
  };
}

template <class Actor, class... Requests>
typename ProxyActor<Actor>::behavior_type proxy_behavior(
    typename ProxyActor<Actor>::template stateful_pointer<ProxyState> self, const std::shared_ptr<Link>& link,
    Destination destination) {
  self->state.link = link;
  self->state.destination = destination;
  return {
      forward<Requests>(self)...,
      [self](InFrame& frame) { self->state.receive(frame); },
      [self](const LinkDown& end) {
        const caf::error why = to_caf(Error(end.code, end.message));
        self->state.fail_all(why);
        self->state.link->close(Error(end.code, end.message));  // if it was not the link that said so
        self->quit(why);
      },
  };
}

template <class I>
struct ProxySpawner;
template <class... Requests>
struct ProxySpawner<Interface<Requests...>> {
  using Actor = typename Interface<Requests...>::Actor;
  static Actor spawn(caf::actor_system& system, const std::shared_ptr<Link>& link, Destination destination) {
    return caf::actor_cast<Actor>(system.spawn(proxy_behavior<Actor, Requests...>, link, destination));
  }
};

template <class I>
typename I::Actor Link::proxy(Destination destination) {
  const auto actor = ProxySpawner<I>::spawn(transport_.system(), shared_from_this(), destination);
  // Here and not by the actor itself, which may first run when the transport has stopped and tells nobody any
  // more.
  attach(destination, caf::actor_cast<caf::strong_actor_ptr>(actor));
  return actor;
}

}  // namespace embers
