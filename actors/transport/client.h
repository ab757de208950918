#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "actors/errors.h"
#include "actors/frames/frame_link.h"
#include "actors/transport/transport.h"

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
// A link that is kept (frame_link.h) connects again. It ends when nobody listens at the peer's addresses any
// more, or when no connection could be made for twice the time after which the peer cuts a silent one.
//
// *Thread safety*: public members from any thread.
class Link final : public FrameLink {
 public:
  static std::shared_ptr<Link> open(Transport& transport, std::vector<Endpoint> endpoints,
                                    const HelloInfo& hello, std::chrono::duration<double> timeout);
  // `peer` names it in messages.
  static std::shared_ptr<Link> open(Transport& transport, std::string peer, FindEndpoints find,
                                    const HelloInfo& hello, std::chrono::duration<double> timeout);

  // The peer listened before anybody knew its addresses: when nobody listens there, it is gone, even if no
  // connection was ever made. Before the first request.
  void expect_listener() { listened_ = true; }
  void close(const Error& why) override;
  // Sends what is queued, then ends the connection; if there is none yet, stops trying to connect.
  void finish();
  const std::string& peer() const { return peer_; }  // for messages

 private:
  Link(Transport& transport, std::string peer, FindEndpoints find, const HelloInfo& hello);
  std::shared_ptr<Link> shared_from_this() {
    return std::static_pointer_cast<Link>(FrameLink::shared_from_this());
  }
  bool post(std::function<void()> work) override { return loop_->post(std::move(work)); }

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
  std::atomic<bool> listened_ = false;
};

}  // namespace embers
