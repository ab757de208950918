#pragma once

#include <atomic>
#include <chrono>
#include <unordered_map>
#include <vector>

#include "actors/errors.h"
#include "actors/transport/proxy.h"
#include "actors/transport/transport.h"
#include "base/mutex.h"

namespace embers {

// What a client says about itself in the handshake; see schema/handshake.capnp.
struct HelloInfo {
  uint64_t job = 0;
  uint64_t incarnation = 0;
  wire::Role role = wire::Role::READER;  // may do the least
};

// The addresses of a peer, asked for before each round of attempts, since they may come to be known, or
// change, while a link tries. Throws what is to be said when there is none. On the io thread.
using FindEndpoints = std::function<std::vector<Endpoint>()>;

// The client's end of a connection to a peer's server. Connects in the background, trying the endpoints in
// turn with growing pauses until the time is up; what is sent meanwhile waits. When it cannot connect, is
// refused, or the connection ends, every proxy answers its open requests with the reason and quits with it
// (so monitor proxies to notice). With the secret of the transport, it talks only to a peer that knows it,
// too.
//
// A name is looked up for each attempt, and all its addresses are tried in turn. None is waited for so long
// that the others get no chance.
//
// A link that is *kept* outlives its connection: it connects again, and asks again what has no answer yet. It
// ends when nobody listens at the peer's addresses any more, or when no connection could be made for twice
// the time after which the peer cuts a silent one. So whatever is asked through it must have the same effect
// asked twice as asked once.
//
// *Thread safety*: proxy, send, close and finish from any thread.
class Link : public std::enable_shared_from_this<Link> {
 public:
  static std::shared_ptr<Link> open(Transport& transport, std::vector<Endpoint> endpoints,
                                    const HelloInfo& hello, std::chrono::duration<double> timeout);
  // `peer` names it in messages.
  static std::shared_ptr<Link> open(Transport& transport, std::string peer, FindEndpoints find,
                                    const HelloInfo& hello, std::chrono::duration<double> timeout);

  // A local actor with the interface of the remote one.
  template <class I>
  typename I::Actor proxy(Destination destination);

  // Before the first request.
  void keep() { kept_ = true; }
  // The peer listened before anybody knew its addresses: when nobody listens there, it is gone, even if no
  // connection was ever made. Before the first request.
  void expect_listener() { listened_ = true; }
  bool is_kept() const { return kept_; }
  // Counts the connections of a link that is kept.
  uint64_t connection() const { return number_; }
  // A request made at the time of that connection. It is not sent when that one is gone: a kept link asks
  // again.
  void send(OutFrame frame, uint64_t connection);
  void close(const Error& why);
  // Sends what is queued, then ends the connection; if there is none yet, stops trying to connect.
  void finish();
  const std::string& peer() const { return peer_; }  // for messages

 private:
  Link(Transport& transport, std::string peer, FindEndpoints find, const HelloInfo& hello);
  caf::strong_actor_ptr add_proxy(Destination destination, Proxy::ReadRequest read);

  // All below on the io thread.
  void try_next();
  void find_endpoints();
  using Addresses = std::shared_ptr<const std::vector<boost::asio::ip::tcp::endpoint>>;
  void connect_tcp(const Endpoint& endpoint);
  void connect_to(const Addresses& addresses, size_t which, bool refused);
  void connect_unix(const Endpoint& endpoint);
  void connected(Connection::Socket socket);
  void ended(const Error& why);
  void connect_again(const Error& why);
  void give_up_in(std::chrono::duration<double> time);
  void limit_attempt();
  void limit_connect(size_t addresses);
  void retry(const std::string& reason, bool refused = false);
  std::string reasons() const;
  void give_up();
  void unreachable(const std::string& why);
  void receive(InFrame frame);
  void shake_hands(InFrame& frame);
  void check_welcome(wire::Welcome::Reader welcome) const;
  void welcomed(Liveness::Duration silence);
  void refused(InFrame& frame);
  void down(const Error& why);

  const std::shared_ptr<EventLoop> loop_;  // before all that is on it
  Transport& transport_;
  const std::string peer_;
  const FindEndpoints find_;
  const HelloInfo info_;
  const uint64_t id_;  // of the link, in each of its handshakes
  std::chrono::steady_clock::time_point deadline_;
  std::chrono::duration<double> timeout_{};
  boost::asio::steady_timer timer_;          // the pause between two attempts
  boost::asio::steady_timer give_up_timer_;  // until the welcome
  boost::asio::steady_timer attempt_timer_;  // of a link that was lost: it tries several times
  boost::asio::steady_timer connect_timer_;  // until an address accepts the connection
  boost::asio::ip::tcp::resolver resolver_;
  std::vector<Endpoint> endpoints_;  // of this round
  size_t round_ = 0, attempt_ = 0;   // attempt_: which of endpoints_
  bool all_refused_ = true;          // in this round
  std::string lost_;                 // why the last connection ended, while there is none; empty at first
  Liveness::Duration silence_{};     // of the last connection
  std::function<void()> cancel_;     // of the attempt under way
  std::vector<std::string> failed_;  // why, for each endpoint of the latest round
  std::shared_ptr<Connection> connection_;
  Message<wire::Hello> hello_;          // as sent over this connection
  Message<wire::Challenge> challenge_;  // and what came back
  bool welcomed_ = false;
  bool finishing_ = false;
  bool down_ = false;
  std::string reason_;  // why the link ended, once it is down
  ErrorCode reason_code_ = ErrorCode::kUnavailable;
  std::unordered_map<uint16_t, caf::strong_actor_ptr> proxies_;

  std::atomic<bool> kept_ = false, listened_ = false;
  std::atomic<uint64_t> number_ = 0;  // changed under mutex_

  Mutex mutex_;
  // Frames go to open_ from the welcome to the end, and to waiting_ before that.
  std::shared_ptr<Connection> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<OutFrame> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

template <class I>
typename I::Actor Link::proxy(Destination destination) {
  return caf::actor_cast<typename I::Actor>(add_proxy(destination, detail::RequestsOf<I>::read));
}

}  // namespace embers
