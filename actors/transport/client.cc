#include "actors/transport/client.h"

#include <fmt/ranges.h>

#include "actors/transport/unix_address.h"

namespace embers {
namespace asio = boost::asio;
namespace {

std::string join(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> texts;
  for (const Endpoint& e : endpoints) texts.push_back(e.text());
  return fmt::format("{}", fmt::join(texts, " or "));
}

Proxy& as_proxy(const caf::strong_actor_ptr& actor) { return static_cast<Proxy&>(*actor->get()); }

Message<wire::Hello> make_hello(const HelloInfo& info) {
  return make_message<wire::Hello>([&](wire::Hello::Builder b) {
    b.setProtocol(kProtocol);
    b.setJob(info.job);
    b.setIncarnation(info.incarnation);
    b.setNumberFormat(kNumberFormat);
  });
}

}  // namespace

Link::Link(Transport& transport, std::vector<Endpoint> endpoints, const HelloInfo& hello)
    : loop_(transport.loop()),
      transport_(transport),
      endpoints_(std::move(endpoints)),
      hello_(hello),
      peer_(join(endpoints_)),
      timer_(transport.io()),
      give_up_timer_(transport.io()),
      resolver_(transport.io()) {}

std::shared_ptr<Link> Link::open(Transport& transport, std::vector<Endpoint> endpoints,
                                 const HelloInfo& hello, std::chrono::duration<double> timeout) {
  std::shared_ptr<Link> link(new Link(transport, std::move(endpoints), hello));
  link->timeout_ = timeout;
  link->deadline_ = std::chrono::steady_clock::now() +
                    std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout);
  transport.adopt(link);
  transport.loop()->post([link] {
    link->give_up_timer_.expires_at(link->deadline_);
    link->give_up_timer_.async_wait([link](auto e) {
      if (!e) link->give_up();
    });
    link->try_next();
  });
  return link;
}

caf::strong_actor_ptr Link::add_proxy(Destination destination, Proxy::ReadRequest read) {
  caf::actor_system& system = transport_.system();
  caf::actor_config config;
  auto proxy = caf::make_actor<Proxy, caf::strong_actor_ptr>(system.next_actor_id(), system.node(), &system,
                                                             config, shared_from_this(), destination, read);
  loop_->post([self = shared_from_this(), destination, proxy] {
    if (self->down_)
      as_proxy(proxy).cleanup(to_caf(Error(self->reason_code_, self->reason_)), nullptr);
    else
      self->proxies_[static_cast<uint16_t>(destination)] = proxy;
  });
  return proxy;
}

void Link::send(OutFrame frame) {
  std::shared_ptr<Connection> to;
  {
    const MutexLock lock(mutex_);
    if (ended_) return;
    if (!open_) return waiting_.push_back(std::move(frame));
    to = open_;
  }
  to->send(std::move(frame));
}

void Link::close(const Error& why) {
  loop_->post([self = shared_from_this(), why] {
    if (self->connection_) self->connection_->close(why);
    self->down(why);
  });
}

void Link::finish() {
  loop_->post([self = shared_from_this()] {
    if (self->connection_)
      self->connection_->finish();
    else
      self->down(Error(ErrorCode::kUnavailable, "this process ended the connection"));
  });
}

void Link::try_next() {
  if (down_) return;
  const Endpoint& endpoint = endpoints_[attempt_ % endpoints_.size()];
  if (endpoint.unix_socket)
    connect_unix(endpoint);
  else
    connect_tcp(endpoint);
}

void Link::connect_tcp(const Endpoint& endpoint) {
  resolver_.async_resolve(endpoint.host, endpoint.port, [self = shared_from_this()](auto e, auto results) {
    if (e) return self->retry("cannot resolve the host: " + e.message());
    if (self->down_) return;
    auto socket = std::make_shared<asio::ip::tcp::socket>(self->loop_->context);
    self->cancel_ = [socket] {
      boost::system::error_code ignored;
      socket->close(ignored);
    };
    asio::async_connect(*socket, results, [self, socket](auto e, auto) {
      if (e) return self->retry(e.message());
      self->connected(Connection::Socket(std::move(*socket)));
    });
  });
}

void Link::connect_unix(const Endpoint& endpoint) {
  auto socket = std::make_shared<asio::local::stream_protocol::socket>(loop_->context);
  socket->async_connect(unix_address(endpoint), [self = shared_from_this(), socket](auto e) {
    if (e) return self->retry(e.message());
    self->connected(Connection::Socket(std::move(*socket)));
  });
}

void Link::connected(Connection::Socket socket) {
  if (down_) return;
  cancel_ = nullptr;
  connection_ = transport_.adopt(std::move(socket));
  connection_->trust();
  connection_->on_frame = [self = shared_from_this()](InFrame frame) { self->receive(std::move(frame)); };
  connection_->on_close = [self = shared_from_this()](const Error& why) { self->down(why); };
  connection_->start();
  connection_->send(out_frame(make_hello(hello_), Destination{}, 0, 0));
}

// A peer that accepts the connection but never answers is as unreachable as one that is not running.
void Link::give_up() {
  if (welcomed_ || down_) return;
  if (connection_)
    connection_->close(Error(
        ErrorCode::kUnreachable,
        fmt::format("{} accepted the connection but did not answer within {} s", peer_, timeout_.count())));
  else
    unreachable("no answer");
}

void Link::unreachable(const std::string& why) {
  down(Error(ErrorCode::kUnreachable,
             fmt::format("cannot reach {}: {} (tried for {} s; is it running, and is the address right?)",
                         peer_, why, timeout_.count())));
}

void Link::retry(const std::string& why) {
  if (down_) return;
  ++attempt_;
  const size_t round = attempt_ / endpoints_.size();
  const auto pause = attempt_ % endpoints_.size() != 0
                         ? std::chrono::milliseconds(0)
                         : std::min(std::chrono::milliseconds(2000),
                                    std::chrono::milliseconds(25) * (1 << std::min<size_t>(round, 8)));
  if (std::chrono::steady_clock::now() + pause > deadline_) return unreachable(why);
  timer_.expires_after(pause);
  timer_.async_wait([self = shared_from_this()](auto e) {
    if (!e) self->try_next();
  });
}

void Link::receive(InFrame frame) {
  if (!welcomed_ || frame.header.correlation == 0) {
    if (frame.error()) return refused(frame);
    decode<wire::Welcome>(frame);
    welcomed_ = true;
    give_up_timer_.cancel();
    const MutexLock lock(mutex_);  // no frame overtakes those that wait
    for (OutFrame& f : waiting_) connection_->send(std::move(f));
    waiting_.clear();
    open_ = connection_;
    return;
  }
  const auto proxy = proxies_.find(frame.header.destination);
  if (proxy == proxies_.end() || !frame.reply())
    fail(ErrorCode::kBadFrame, "a frame arrived for destination {}, which expects none",
         frame.header.destination);
  as_proxy(proxy->second).receive(frame);
}

// The peer has said why it ends the connection. It no longer listens, so nothing is sent back.
void Link::refused(InFrame& frame) {
  try {
    throw_error_reply(frame);
  } catch (const Error& why) {
    connection_->close(why);
  }
}

void Link::down(const Error& why) {
  if (down_) return;
  down_ = true;
  reason_ = why.what();
  reason_code_ = why.code();
  timer_.cancel();
  give_up_timer_.cancel();
  if (cancel_) std::exchange(cancel_, nullptr)();
  connection_.reset();
  welcomed_ = false;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    open_.reset();
    waiting_.clear();
  }
  for (const auto& [destination, proxy] : std::exchange(proxies_, {}))
    as_proxy(proxy).cleanup(to_caf(why), nullptr);
}

}  // namespace embers
