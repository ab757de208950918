#include "actors/transport/transport.h"

#include <netinet/in.h>

#include <algorithm>
#include <future>

#include "actors/transport/client.h"

namespace embers {
namespace {

// Between processes of one host: so small that what one writes is still in a cache when the other reads it.
// Between hosts the kernel chooses the size.
constexpr int kBufferBytes = 256 << 10;

// Whether both ends have the same address, or none.
bool of_this_host(const Connection::Socket& socket) {
  boost::system::error_code failed;
  const Connection::Socket::endpoint_type here = socket.local_endpoint(failed);
  if (failed) return false;
  const Connection::Socket::endpoint_type there = socket.remote_endpoint(failed);
  if (failed || here.protocol().family() != there.protocol().family()) return false;
  switch (here.protocol().family()) {
    case AF_UNIX:
      return true;
    case AF_INET:
      return reinterpret_cast<const sockaddr_in*>(here.data())->sin_addr.s_addr ==
             reinterpret_cast<const sockaddr_in*>(there.data())->sin_addr.s_addr;
    case AF_INET6:
      return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6*>(here.data())->sin6_addr,
                                &reinterpret_cast<const sockaddr_in6*>(there.data())->sin6_addr);
    default:
      return false;
  }
}

}  // namespace

bool tune(Connection::Socket& socket) {
  boost::system::error_code ignored;
  const bool near = of_this_host(socket);
  if (near) {
    socket.set_option(boost::asio::socket_base::send_buffer_size(kBufferBytes), ignored);
    socket.set_option(boost::asio::socket_base::receive_buffer_size(kBufferBytes), ignored);
  }
  socket.set_option(boost::asio::ip::tcp::no_delay(true), ignored);  // refused by a Unix socket
  return near;
}

Transport::Transport(caf::actor_system& system, Credentials credentials)
    : system_(system),
      credentials_(std::move(credentials)),
      work_(boost::asio::make_work_guard(io())),
      thread_([this] { io().run(); }) {}

Transport::~Transport() { stop(); }

void Transport::check_guarded(const Endpoint& endpoint, const char* what) const {
  if (credentials_.secret || credentials_.insecure || is_on_this_host(endpoint)) return;
  fail(ErrorCode::kInvalid,
       "cannot {} {} without the job's secret, since other hosts can reach that address: give --job-dir or "
       "--secret-file (or EMBERS_SECRET_FILE), or --insecure in a network that you trust",
       what, endpoint.text());
}

std::shared_ptr<Connection> Transport::adopt(Connection::Socket socket) {
  const bool near = tune(socket);
  const auto peer = shared_ ? shares_with(socket.native_handle()) : std::nullopt;
  auto connection = std::make_shared<Connection>(loop_, flow_, std::move(socket));
  if (!near) connection->read_in_bulk();
  if (peer) connection->share(std::make_unique<Sharing>(*peer, shared_));
  const MutexLock lock(mutex_);
  connections_gone_.before_adding(connections_, [](const auto& weak) { return weak.expired(); });
  connections_.push_back(connection);
  // One that came while this transport stops: a client that connects again at once.
  if (stopping_) connection->close(Error(ErrorCode::kUnavailable, "this process is ending"));
  return connection;
}

size_t Transport::connections() const {
  const MutexLock lock(mutex_);
  return static_cast<size_t>(
      std::count_if(connections_.begin(), connections_.end(), [](const auto& c) { return !c.expired(); }));
}

void Transport::adopt(const std::shared_ptr<Link>& link) {
  const MutexLock lock(mutex_);
  links_gone_.before_adding(links_, [](const auto& weak) { return weak.expired(); });
  links_.push_back(link);
  if (stopping_) link->finish();  // whatever is asked through it is answered with its end
}

void Transport::stop() {
  if (!thread_.joinable()) return;
  std::vector<std::weak_ptr<Connection>> open;
  std::promise<void> told;
  // On the io thread: no link becomes connected meanwhile, and what finish() posts runs before `told` is set.
  loop_->post([&] {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& weak : links_)
      if (const auto link = weak.lock()) link->finish();
    for (const auto& weak : connections_)
      if (const auto connection = weak.lock()) connection->finish();
    open = connections_;
    loop_->post([&] { told.set_value(); });
  });
  told.get_future().wait();
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(Connection::kFinishSeconds + 1);
  const auto all_closed = [&] {
    return std::all_of(open.begin(), open.end(), [](const auto& weak) { return weak.expired(); });
  };
  while (!all_closed() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  io().stop();
  thread_.join();
  loop_->end();
  if (shared_) shared_->stop();
}

}  // namespace embers
