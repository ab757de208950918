#include "actors/transport/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <variant>

#include "actors/transport/unix_address.h"

namespace embers {
namespace asio = boost::asio;
namespace {

constexpr int kHandshakeSeconds = 10;
constexpr auto kAcceptPause = std::chrono::milliseconds(200);

[[noreturn]] void fail_listen(const Endpoint& endpoint, const std::string& why) {
  fail(ErrorCode::kInvalid, "cannot listen on {}: {}", endpoint.text(), why);
}

// Whether somebody answers at this Unix socket.
bool is_alive(const Endpoint& endpoint) {
  asio::io_context io;
  asio::local::stream_protocol::socket probe(io);
  boost::system::error_code e;
  probe.connect(unix_address(endpoint), e);
  return !e;
}

void check_is_request(const InFrame& frame) {
  if (frame.reply() || frame.error())
    fail(ErrorCode::kBadFrame, "a reply came from a client that was asked nothing");
}

void check_hello(wire::Hello::Reader hello, const Server::Options& options) {
  if (hello.getProtocol() != kProtocol)
    fail(ErrorCode::kMismatch, "protocol {} here, {} at the peer: install the same embers on all hosts",
         kProtocol, hello.getProtocol());
  if (hello.getNumberFormat() != kNumberFormat)
    fail(ErrorCode::kMismatch, "number format {} here, {} at the peer", kNumberFormat,
         hello.getNumberFormat().cStr());
  if (hello.getJob() == 0 && !options.accept_strangers)
    fail(ErrorCode::kMismatch, "this is a shard of a job: give the address of the job's master");
  if (hello.getJob() == options.job || (hello.getJob() == 0 && options.accept_strangers)) return;
  fail(ErrorCode::kMismatch, "job {:016x} here, job {:016x} at the peer: it belongs to another run",
       options.job, hello.getJob());
}

}  // namespace

struct Server::Acceptor {
  std::variant<asio::ip::tcp::acceptor, asio::local::stream_protocol::acceptor> acceptor;
  std::string socket_path;  // of a Unix socket with a file, to be removed at the end
};

std::shared_ptr<Server> Server::listen(Transport& transport, const std::vector<Endpoint>& endpoints,
                                       Options options) {
  std::shared_ptr<Server> server(new Server(transport, options));
  for (const Endpoint& endpoint : endpoints) server->add(endpoint);
  return server;
}

Server::~Server() { stop(); }

// Connections are refused from now on, although the io thread closes the acceptors later.
void Server::stop() {
  const auto stopped = std::exchange(acceptors_, {});
  for (const auto& a : stopped) {
    if (!a->socket_path.empty()) ::unlink(a->socket_path.c_str());
    std::visit([](auto& acceptor) { ::shutdown(acceptor.native_handle(), SHUT_RDWR); }, a->acceptor);
  }
  asio::post(transport_.io(), [acceptors = stopped] {
    boost::system::error_code ignored;
    for (const auto& a : acceptors) std::visit([&](auto& acceptor) { acceptor.close(ignored); }, a->acceptor);
  });
}

void Server::add(const Endpoint& endpoint) {
  try {
    if (endpoint.unix_socket) {
      if (std::error_code ignored;
          !is_abstract(endpoint) && std::filesystem::is_socket(endpoint.host, ignored)) {
        if (is_alive(endpoint)) fail_listen(endpoint, "address already in use");
        ::unlink(endpoint.host.c_str());
      }
      acceptors_.push_back(std::make_shared<Acceptor>(
          Acceptor{asio::local::stream_protocol::acceptor(transport_.io(), unix_address(endpoint)),
                   is_abstract(endpoint) ? "" : endpoint.host}));
      endpoints_.push_back(endpoint);
      return;
    }
    asio::ip::tcp::resolver resolver(transport_.io());
    const asio::ip::tcp::endpoint address =
        *resolver.resolve(endpoint.host, endpoint.port, asio::ip::resolver_base::passive);
    asio::ip::tcp::acceptor acceptor(transport_.io(), address);
    endpoints_.push_back({false, endpoint.host, std::to_string(acceptor.local_endpoint().port())});
    acceptors_.push_back(std::make_shared<Acceptor>(Acceptor{std::move(acceptor), ""}));
  } catch (const boost::system::system_error& e) {
    fail_listen(endpoint, e.code().message());
  }
}

void Server::start() {
  for (const auto& acceptor : acceptors_) accept(acceptor);
}

void Server::accept(const std::shared_ptr<Acceptor>& acceptor) {
  std::visit(
      [&](auto& a) {
        if (!a.is_open()) return;
        a.async_accept([weak = weak_from_this(), acceptor](auto e, auto socket) {
          const auto self = weak.lock();
          const bool stopped = e == asio::error::operation_aborted || e == asio::error::invalid_argument;
          if (!self || stopped) return;
          if (!e) {
            self->greet(Connection::Socket(std::move(socket)));
            return self->accept(acceptor);
          }
          spdlog::warn("a connection could not be accepted: {}", e.message());
          self->accept_later(acceptor);
        });
      },
      acceptor->acceptor);
}

// Out of descriptors, perhaps: trying again at once would fail the same way.
void Server::accept_later(const std::shared_ptr<Acceptor>& acceptor) {
  auto timer = std::make_shared<asio::steady_timer>(transport_.io(), kAcceptPause);
  timer->async_wait([timer, weak = weak_from_this(), acceptor](auto) {
    if (const auto self = weak.lock()) self->accept(acceptor);
  });
}

void Server::greet(Connection::Socket socket) {
  const auto connection = transport_.adopt(std::move(socket));
  const std::weak_ptr<Connection> weak = connection;
  connection->on_frame = [server = weak_from_this(), weak](InFrame frame) {
    const auto self = server.lock();
    const auto c = weak.lock();
    if (self && c) self->shake_hands(c, frame);
  };
  connection->on_close = [](const Error& why) {
    spdlog::debug("a connection ended in the handshake: {}", why.what());
  };
  connection->start();
  auto timer = std::make_shared<asio::steady_timer>(transport_.io(), std::chrono::seconds(kHandshakeSeconds));
  timer->async_wait([timer, weak](auto) {
    if (const auto c = weak.lock(); c && !c->trusted())
      c->close(Error(ErrorCode::kTimeout, fmt::format("no handshake within {} s", kHandshakeSeconds)));
  });
}

void Server::shake_hands(const std::shared_ptr<Connection>& connection, InFrame& frame) {
  check_is_request(frame);
  const auto hello = decode<wire::Hello>(frame);
  decoding(Kind::kHello, [&] { check_hello(hello.get(), options_); });
  connection->trust();
  caf::actor_system& system = transport_.system();
  caf::actor_config config;
  const auto actor = caf::make_actor<Session, caf::strong_actor_ptr>(system.next_actor_id(), system.node(),
                                                                     &system, config, connection);
  const auto session = [actor]() -> Session& { return static_cast<Session&>(*actor->get()); };
  connection->set_handlers([session, handlers = handlers_](InFrame f) { ask(*handlers, session(), f); },
                           [session](const Error& why) {
                             session().cleanup(to_caf(Error(ErrorCode::kUnavailable, why.what())), nullptr);
                           });
  connection->send(out_frame(make_message<wire::Welcome>(), Destination{}, 0, FrameHeader::kReply));
}

void Server::ask(const Handlers& handlers, Session& session, InFrame& frame) {
  const FrameHeader header = frame.header;
  try {
    check_is_request(frame);
    const auto handler = handlers.find({header.destination, header.kind});
    if (handler == handlers.end())
      fail(ErrorCode::kBadFrame, "destination {} takes no {} here", header.destination,
           name(static_cast<Kind>(header.kind)));
    handler->second(session, frame);
  } catch (const Error& e) {
    session.answer_error(header, e);
  } catch (const std::exception& e) {
    session.answer_error(header, Error(ErrorCode::kInternal, e.what()));
  }
}

}  // namespace embers
