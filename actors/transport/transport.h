#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "actors/door/secret.h"
#include "actors/transport/addresses/endpoint.h"
#include "actors/transport/connections/connection.h"
#include "actors/transport/sweep.h"
#include "base/mutex.h"

namespace embers {

class Link;

// The options that the socket of every connection gets. Whether the peer is on this host.
bool tune(Connection::Socket& socket);

// Actors for semantics, Asio for bytes: owns the io thread and every connection of the process. A Link
// (client.h) gives proxies of remote actors, a Server (server.h) lets remote peers reach local ones.
//
// *Thread safety*: all members from any thread.
class Transport {
 public:
  // The credentials are those of every link and server of this transport.
  explicit Transport(caf::actor_system& system, Credentials credentials = {});
  ~Transport();  // stop()

  caf::actor_system& system() { return system_; }
  const Secret& secret() const { return credentials_.secret; }
  // kInvalid for an address beyond this host, unless there is a secret, or none is wanted. `what` says what
  // is to be done there: "listen on", "connect to".
  void check_guarded(const Endpoint& endpoint, const char* what) const;
  boost::asio::io_context& io() { return loop_->context; }
  const std::shared_ptr<EventLoop>& loop() { return loop_; }

  // Transports of one process share their flow. Call before the first connection.
  void share(std::shared_ptr<Flow> flow) { flow_ = std::move(flow); }
  const std::shared_ptr<Flow>& flow() const { return flow_; }

  // Where large messages are built so that peers on this host can read them in place.
  WordsMemoryPtr memory() const { return shared_; }
  // Nothing is shared with any peer (before the first connection).
  void share_nothing() { shared_ = nullptr; }

  // Makes a connection from a connected socket, and keeps track of it.
  std::shared_ptr<Connection> adopt(Connection::Socket socket);

  // That are open now.
  size_t connections() const;

  // Keeps track of a link, so that stop() ends it even if it is not connected yet.
  void adopt(const std::shared_ptr<Link>& link);

  // Lets every connection send what is queued, ends it, and stops the io thread. Call when the actors that
  // use it are done; takes little more than Connection::kFinishSeconds at most.
  void stop();

 private:
  caf::actor_system& system_;
  const Credentials credentials_;
  const std::shared_ptr<EventLoop> loop_ = std::make_shared<EventLoop>();
  std::shared_ptr<Flow> flow_ = std::make_shared<Flow>();
  std::shared_ptr<SharedArena> shared_ = std::make_shared<SharedArena>();
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  mutable Mutex mutex_;
  std::vector<std::weak_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Link>> links_ ABSL_GUARDED_BY(mutex_);
  Sweep connections_gone_ ABSL_GUARDED_BY(mutex_), links_gone_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace embers
