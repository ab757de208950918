#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/errors.h"
#include "actors/transport/session.h"
#include "actors/transport/transport.h"

namespace embers {

// Listens and lets peers that have shaken hands talk to local actors. To those actors each connection is one
// sender: monitor current_sender() to notice the end of a peer, in this process and across processes alike.
class Server : public std::enable_shared_from_this<Server> {
 public:
  struct Options {
    uint64_t job = 0;  // number of the run; a client of another one is refused
    bool accept_strangers =
        false;  // a client that does not know the run yet (job 0) is welcome: masters only
  };

  // Binds and listens; connections wait until start(). kInvalid naming the address that is in use, or that
  // cannot be bound. A Unix socket left behind by a process that is gone is replaced.
  static std::shared_ptr<Server> listen(Transport& transport, const std::vector<Endpoint>& endpoints,
                                        Options options);

  // Requests of interface I for `destination` go to `actor`. Before start().
  template <class I>
  void serve(Destination destination, typename I::Actor actor);
  void start();
  // Accepts no more connections and removes its Unix sockets.
  void stop();
  ~Server();  // stop(); before the transport's end

  // Where it listens, with the ports that it got.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

 private:
  using Handler = std::function<void(Session& session, InFrame& frame)>;
  using Handlers = std::map<std::pair<uint16_t, uint16_t>, Handler>;  // by (destination, kind)
  struct Acceptor;

  Server(Transport& transport, Options options) : transport_(transport), options_(options) {}
  void add(const Endpoint& endpoint);
  void accept(const std::shared_ptr<Acceptor>& acceptor);
  void accept_later(const std::shared_ptr<Acceptor>& acceptor);
  void greet(Connection::Socket socket);
  void shake_hands(const std::shared_ptr<Connection>& connection, InFrame& frame);
  static void ask(const Handlers& handlers, Session& session, InFrame& frame);
  template <class T, class Actor>
  void add_handler(Destination destination, const Actor& actor);

  Transport& transport_;
  const Options options_;
  std::vector<Endpoint> endpoints_;
  std::vector<std::shared_ptr<Acceptor>> acceptors_;
  std::shared_ptr<Handlers> handlers_ = std::make_shared<Handlers>();
};

template <class T, class Actor>
void Server::add_handler(Destination destination, const Actor& actor) {
  (*handlers_)[{static_cast<uint16_t>(destination), static_cast<uint16_t>(KindOf<T>::kind)}] =
      [actor](Session& session, InFrame& frame) {
        const FrameHeader header = frame.header;
        session.ask(actor, header, decode<T>(frame));
      };
}

namespace detail {
template <class I>
struct ForEachRequest;
template <class... Requests>
struct ForEachRequest<Interface<MessageList<Requests...>>> {
  template <class F>
  static void call(F&& f) {
    (f.template operator()<Requests>(), ...);
  }
};
}  // namespace detail

template <class I>
void Server::serve(Destination destination, typename I::Actor actor) {
  detail::ForEachRequest<I>::call([&]<class T>() { add_handler<T>(destination, actor); });
}

}  // namespace embers
