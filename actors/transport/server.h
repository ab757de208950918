#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/door/newcomers.h"
#include "actors/door/refusal_log.h"
#include "actors/errors.h"
#include "actors/frames/dispatch.h"
#include "actors/transport/addresses/advertise.h"
#include "actors/transport/transport.h"

namespace embers {

// Listens and lets peers that have shaken hands talk to local actors. To those actors each connection is one
// sender: monitor current_sender() to notice the end of a peer, in this process and across processes alike.
//
// A peer shakes hands with the job's secret, if the transport has one, and a role, which says what it may ask
// from then on. An abstract Unix socket takes only processes of this process's user. Before the handshake a
// peer has little: small messages, `patience` in all, and a place among `newcomers`. Who is refused is said
// in the log, once (refusal_log.h).
class Server : public std::enable_shared_from_this<Server> {
 public:
  struct Options {
    uint64_t job = 0;  // number of the run; a client of another one is refused
    bool accept_strangers =
        false;                // a client that does not know the run yet (job 0) is welcome: masters only
    size_t newcomers = 1024;  // connections that have not shaken hands, at most
    std::chrono::milliseconds patience = std::chrono::seconds(10);  // for a handshake
    PortRange ports = {};  // of which an endpoint with port 0 gets a free one
    // Without progress for so long, a connection is cut (liveness.h); its client hears of it in the
    // handshake.
    std::chrono::duration<double> silence = std::chrono::seconds(5);
  };

  // Binds and listens; connections wait until start(). kInvalid naming the address that is in use, or that
  // cannot be bound. A Unix socket left behind by a process that is gone is replaced.
  static std::shared_ptr<Server> listen(Transport& transport, const std::vector<Endpoint>& endpoints,
                                        Options options);

  // Requests of interface I for `destination` go to `actor`. Before start().
  template <class I>
  void serve(Destination destination, typename I::Actor actor) {
    dispatch_->serve<I>(destination, std::move(actor));
  }
  // The actor comes later: until provide() gives it, requests of interface I for `destination` wait, as those
  // of an actor that is busy. Before start().
  template <class I>
  void expect(Destination destination) {
    dispatch_->expect<I>(destination);
  }
  // At any time, from any thread.
  template <class I>
  void provide(Destination destination, typename I::Actor actor) {
    provide([destination, actor = std::move(actor)](Dispatch& dispatch) {
      dispatch.serve<I>(destination, actor);
    });
  }
  void start();
  // Accepts no more connections and removes its Unix sockets.
  void stop();
  // Tells every peer that has shaken hands why its connection ends, and ends it.
  void dismiss(const Error& why);
  ~Server();  // stop(); before the transport's end

  // Where it listens, with the ports that it got.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

 private:
  struct Acceptor;
  // A connection that has not shaken hands yet.
  struct Newcomer {
    std::weak_ptr<Connection> connection;
    std::string address;
    std::unique_ptr<boost::asio::steady_timer> timer;
    Message<wire::Hello> hello;
    Message<wire::Challenge> challenge;  // once it is sent
  };

  Server(Transport& transport, Options options);
  void provide(std::function<void(Dispatch&)> serve);
  static void ask(Dispatch& dispatch, RefusalLog& refusals, Session& session, InFrame& frame);
  static void give(Dispatch& dispatch, RefusalLog& refusals, std::vector<HeldRequest> requests);
  void add(const Endpoint& endpoint);
  boost::asio::ip::tcp::acceptor bind(const Endpoint& endpoint);
  void accept(const std::shared_ptr<Acceptor>& acceptor);
  void accept_later(const std::shared_ptr<Acceptor>& acceptor, std::chrono::milliseconds pause);
  bool greet(Connection::Socket socket, bool abstract);
  bool make_room();
  void shake_hands(Newcomers::Id id, const std::shared_ptr<Connection>& connection, InFrame& frame);
  void check_hello(wire::Hello::Reader hello) const;
  void check_run(wire::Hello::Reader hello) const;
  void end_earlier(uint64_t link, const std::shared_ptr<Connection>& connection);
  void welcome(Newcomer newcomer, const std::shared_ptr<Connection>& connection);
  void left(Newcomers::Id id, const std::string& address, const Error& why);
  static void log_refusal(RefusalLog& log, const std::string& address, const std::string& reason,
                          const std::string& what);
  static void ended(Session& session, const Error& why);

  Transport& transport_;
  const Options options_;
  std::vector<Endpoint> endpoints_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  const std::shared_ptr<Dispatch> dispatch_ = std::make_shared<Dispatch>();

  // On the io thread.
  const std::shared_ptr<RefusalLog> refusals_ = std::make_shared<RefusalLog>();
  Newcomers newcomers_;
  uint64_t crowded_out_ = 0;                    // newcomers that made room
  std::map<Newcomers::Id, Newcomer> newcomer_;  // those that newcomers_ counts
  std::vector<std::weak_ptr<Connection>> welcomed_;
  std::map<uint64_t, std::weak_ptr<Connection>> of_link_;  // the latest one of each client's link
  Sweep welcomed_gone_, of_link_gone_;
};

}  // namespace embers
