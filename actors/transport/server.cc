#include "actors/transport/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <variant>

#include "actors/transport/addresses/unix_address.h"
#include "actors/transport/connections/peer_address.h"

namespace embers {
namespace asio = boost::asio;
namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(200);
// While a newcomer has to go for each one that comes, the server pauses after a few: whoever opens
// connections as fast as it can takes neither this thread from those that have shaken hands, nor from others
// the time to do so.
constexpr auto kCrowdedPause = std::chrono::milliseconds(1);
constexpr uint64_t kCrowdedFew = 4;

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

// What the log tells apart. Messages of kDenied quote nothing that a peer could vary.
std::string reason_of(const Error& why) {
  return why.code() == ErrorCode::kDenied ? std::string(why.what()) : std::string(name(why.code()));
}

}  // namespace

struct Server::Acceptor {
  using Any = std::variant<asio::ip::tcp::acceptor, asio::local::stream_protocol::acceptor>;
  Acceptor(Any any, std::string path, bool is_abstract)
      : acceptor(std::move(any)), socket_path(std::move(path)), abstract(is_abstract) {}

  Any acceptor;
  std::string socket_path;  // of a Unix socket with a file, to be removed at the end
  bool abstract;
  ClosedInChildren in_children{std::visit([](auto& a) { return a.native_handle(); }, acceptor)};
};

Server::Server(Transport& transport, Options options)
    : transport_(transport), options_(options), newcomers_(options.newcomers) {
  // Requests that have their turn may outlive the transport, and this server.
  dispatch_->line_up([loop = transport.loop(), weak = std::weak_ptr(dispatch_), refusals = refusals_] {
    loop->post([weak, refusals] {
      const auto dispatch = weak.lock();
      if (!dispatch) return;
      for (auto next = dispatch->take_turns(); !next.empty(); next = dispatch->take_turns())
        give(*dispatch, *refusals, std::move(next));
    });
  });
}

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
    for (const auto& a : acceptors) {
      a->in_children.let_go();
      std::visit([&](auto& acceptor) { acceptor.close(ignored); }, a->acceptor);
    }
  });
}

void Server::dismiss(const Error& why) {
  asio::post(transport_.io(), [weak = weak_from_this(), why] {
    const auto self = weak.lock();
    if (!self) return;
    for (const auto& welcomed : std::exchange(self->welcomed_, {}))
      if (const auto connection = welcomed.lock()) connection->reject(why);
  });
}

void Server::add(const Endpoint& endpoint) {
  transport_.check_guarded(endpoint, "listen on");
  try {
    if (endpoint.unix_socket) {
      if (std::error_code ignored;
          !is_abstract(endpoint) && std::filesystem::is_socket(endpoint.host, ignored)) {
        if (is_alive(endpoint)) fail_listen(endpoint, "address already in use");
        ::unlink(endpoint.host.c_str());
      }
      acceptors_.push_back(std::make_shared<Acceptor>(
          asio::local::stream_protocol::acceptor(transport_.io(), unix_address(endpoint)),
          is_abstract(endpoint) ? "" : endpoint.host, is_abstract(endpoint)));
      endpoints_.push_back(endpoint);
      return;
    }
    asio::ip::tcp::acceptor acceptor = bind(endpoint);
    endpoints_.push_back({false, endpoint.host, std::to_string(acceptor.local_endpoint().port())});
    acceptors_.push_back(std::make_shared<Acceptor>(std::move(acceptor), "", false));
  } catch (const boost::system::system_error& e) {
    fail_listen(endpoint, e.code().message());
  }
}

// A range has one port for each server that listens on this host.
asio::ip::tcp::acceptor Server::bind(const Endpoint& endpoint) {
  asio::ip::tcp::resolver resolver(transport_.io());
  asio::ip::tcp::endpoint address =
      *resolver.resolve(endpoint.host, endpoint.port, asio::ip::resolver_base::passive);
  if (endpoint.port != "0" || options_.ports.any()) return {transport_.io(), address};
  for (unsigned port = options_.ports.first; port <= options_.ports.last; ++port) {
    address.port(static_cast<uint16_t>(port));
    try {
      return {transport_.io(), address};
    } catch (const boost::system::system_error& e) {
      if (e.code() != asio::error::address_in_use && e.code() != asio::error::access_denied) throw;
    }
  }
  fail_listen(endpoint, fmt::format("no port of --port-range {} is free here: give a wider one",
                                    options_.ports.text()));
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
            const bool crowded = self->greet(Connection::Socket(std::move(socket)), acceptor->abstract);
            const bool pause = crowded && ++self->crowded_out_ % kCrowdedFew == 0;
            return pause ? self->accept_later(acceptor, kCrowdedPause) : self->accept(acceptor);
          }
          // Out of descriptors, perhaps: trying again at once would fail the same way.
          const bool files =
              e == asio::error::no_descriptors || e == boost::system::errc::too_many_files_open_in_system;
          log_refusal(
              *self->refusals_, "a connection", e.message(),
              fmt::format("it could not be accepted: {}{}", e.message(),
                          files ? "; raise the limit where this process is started (ulimit -n)" : ""));
          self->accept_later(acceptor, kAcceptPause);
        });
      },
      acceptor->acceptor);
}

void Server::accept_later(const std::shared_ptr<Acceptor>& acceptor, std::chrono::milliseconds pause) {
  auto timer = std::make_shared<asio::steady_timer>(transport_.io(), pause);
  timer->async_wait([timer, weak = weak_from_this(), acceptor](auto) {
    if (const auto self = weak.lock()) self->accept(acceptor);
  });
}

// --- the handshake -------------------------------------------------------------------------------

// Returns whether somebody had to go to make room.
bool Server::greet(Connection::Socket socket, bool abstract) {
  const std::string address = peer_address(socket);
  const std::optional<uid_t> user = peer_user(socket);
  const auto connection = transport_.adopt(std::move(socket));
  connection->distrust();
  const Newcomers::Id id = newcomers_.add(address);
  Newcomer& newcomer = newcomer_[id];
  newcomer.connection = connection;
  newcomer.address = address;
  connection->on_close = [server = weak_from_this(), id, address](const Error& why) {
    if (const auto self = server.lock()) self->left(id, address, why);
  };
  if (abstract && user != ::geteuid()) {
    connection->reject(Error(
        ErrorCode::kDenied,
        fmt::format("this socket is for processes of user {}, not of user {}: use a TCP address, or a Unix "
                    "socket with a file",
                    ::geteuid(), user.value_or(-1))));
  } else {
    connection->on_frame = [server = weak_from_this(), id, weak = newcomer.connection](InFrame frame) {
      const auto self = server.lock();
      const auto c = weak.lock();
      if (self && c) self->shake_hands(id, c, frame);
    };
    connection->start();
  }
  newcomer.timer = std::make_unique<asio::steady_timer>(transport_.io(), options_.patience);
  newcomer.timer->async_wait([weak = newcomer.connection, patience = options_.patience](auto e) {
    if (const auto c = weak.lock(); c && !e && !c->trusted())
      c->close(Error(ErrorCode::kTimeout, fmt::format("it did not shake hands within {} s",
                                                      std::chrono::duration<double>(patience).count())));
  });
  return make_room();
}

bool Server::make_room() {
  const auto id = newcomers_.make_room();
  if (!id) return false;
  const Newcomer newcomer = std::move(newcomer_.extract(*id).mapped());
  log_refusal(*refusals_, newcomer.address, "newcomers",
              fmt::format("more than {} connections have not shaken hands; the oldest ones are closed",
                          options_.newcomers));
  if (const auto connection = newcomer.connection.lock())
    connection->close(Error(ErrorCode::kUnavailable, "it made room for other connections"));
  return true;
}

// The connection of a newcomer has ended.
void Server::left(Newcomers::Id id, const std::string& address, const Error& why) {
  newcomers_.remove(id);
  newcomer_.erase(id);
  if (why.code() == ErrorCode::kUnavailable)  // it hung up, made room, or this process ends
    spdlog::debug("a connection of {} ended in the handshake: {}", address, why.what());
  else
    log_refusal(*refusals_, address, reason_of(why), why.what());
}

void Server::log_refusal(RefusalLog& log, const std::string& address, const std::string& reason,
                         const std::string& what) {
  if (const auto line = log.add(address, reason, what, RefusalLog::Clock::now())) spdlog::warn("{}", *line);
}

void Server::shake_hands(Newcomers::Id id, const std::shared_ptr<Connection>& connection, InFrame& frame) {
  const auto known = newcomer_.find(id);
  if (known == newcomer_.end()) return;  // it has made room
  Newcomer& newcomer = known->second;
  check_is_request(frame);
  const auto reply = [&](const auto& message) {
    connection->send(out_frame(message, Destination{}, 0, FrameHeader::kReply));
  };
  if (!newcomer.hello) {
    newcomer.hello = decode<wire::Hello>(frame);
    const auto hello = newcomer.hello.get();
    decoding(Kind::kHello, [&] { check_hello(hello); });
    if (transport_.secret()) {
      newcomer.challenge = make_message<wire::Challenge>(
          [](wire::Challenge::Builder b) { b.setNonce(as_data(make_nonce())); });
      return reply(newcomer.challenge);
    }
  } else {
    const auto theirs = decode<wire::Proof>(frame);
    const Mac right = proof(transport_.secret(), Prover::kClient, newcomer.hello.words().bytes(),
                            newcomer.challenge.words().bytes());
    if (!decoding(Kind::kProof, [&] { return is_equal(right, as_bytes(theirs.get().getMac())); }))
      fail(ErrorCode::kDenied,
           "wrong secret: give the job directory (--job-dir) of the job's master, or its --secret-file");
  }
  check_run(newcomer.hello.get());
  newcomers_.remove(id);
  welcome(std::move(newcomer_.extract(known).mapped()), connection);
}

void Server::check_hello(wire::Hello::Reader hello) const {
  if (hello.getProtocol() != kProtocol)
    fail(ErrorCode::kMismatch, "protocol {} here, {} at the peer: install the same embers on all hosts",
         kProtocol, hello.getProtocol());
  if (hello.getNumberFormat() != kNumberFormat)
    fail(ErrorCode::kMismatch, "number format {} here, {} at the peer", kNumberFormat,
         hello.getNumberFormat().cStr());
  const size_t nonce = hello.getNonce().size();
  if (transport_.secret() && nonce == 0)
    fail(ErrorCode::kDenied, "this job asks for its secret: give --job-dir or --secret-file");
  if (nonce != 0 && nonce != kNonceBytes)
    fail(ErrorCode::kBadFrame, "a nonce has {} bytes instead of {}", nonce, kNonceBytes);
  const wire::Role role = hello.getRole();
  if (name(role).empty())
    fail(ErrorCode::kMismatch, "role {} is unknown here: install the same embers on all hosts",
         static_cast<unsigned>(role));
  if (!dispatch_->takes_from(role))
    fail(ErrorCode::kDenied, "the role {} has nothing to ask here", name(role));
}

// Strangers are not told about the run, so this comes last.
void Server::check_run(wire::Hello::Reader hello) const {
  if (hello.getJob() == 0 && !options_.accept_strangers)
    fail(ErrorCode::kMismatch, "this is a shard of a job: give the address of the job's master");
  if (hello.getJob() == options_.job || hello.getJob() == 0) return;
  fail(ErrorCode::kMismatch, "job {:016x} here, job {:016x} at the peer: it belongs to another run",
       options_.job, hello.getJob());
}

// A client that connects again has noticed before this server that its last connection is of no use. Its
// actor here ends before the next one asks anything.
void Server::end_earlier(uint64_t link, const std::shared_ptr<Connection>& connection) {
  if (link == 0) return;
  of_link_gone_.before_adding(of_link_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto earlier = std::exchange(of_link_[link], connection).lock())
    earlier->close(Error(ErrorCode::kUnavailable, "its client has connected again"));
}

void Server::welcome(Newcomer newcomer, const std::shared_ptr<Connection>& connection) {
  connection->trust();
  end_earlier(newcomer.hello.get().getLink(), connection);
  welcomed_gone_.before_adding(welcomed_, [](const auto& weak) { return weak.expired(); });
  welcomed_.push_back(connection);
  const auto actor =
      make_session(transport_.system(), connection, newcomer.hello.get().getRole(), newcomer.address);
  const auto session = [actor]() -> Session& { return static_cast<Session&>(*actor->get()); };
  connection->set_handlers([session, dispatch = dispatch_,
                            refusals = refusals_](InFrame f) { ask(*dispatch, *refusals, session(), f); },
                           [session, actor, dispatch = dispatch_, refusals = refusals_](const Error& why) {
                             // Actors hear of the end after all that the peer has asked.
                             give(*dispatch, *refusals, dispatch->take_turns_of(actor));
                             ended(session(), why);
                           });
  const auto message = make_message<wire::Welcome>([&](wire::Welcome::Builder b) {
    b.setSilence(options_.silence.count());
    if (!newcomer.challenge) return;
    b.setMac(as_data(proof(transport_.secret(), Prover::kServer, newcomer.hello.words().bytes(),
                           newcomer.challenge.words().bytes())));
  });
  connection->send(out_frame(message, Destination{}, 0, FrameHeader::kReply));
  connection->watch(options_.silence);
}

// --- after the handshake -------------------------------------------------------------------------

void Server::ask(Dispatch& dispatch, RefusalLog& refusals, Session& session, InFrame& frame) {
  if (const auto denied = dispatch.ask(session, frame))
    log_refusal(refusals, session.address(), reason_of(*denied), denied->what());
}

// Of the peers that have waited in a line.
void Server::give(Dispatch& dispatch, RefusalLog& refusals, std::vector<HeldRequest> requests) {
  for (HeldRequest& request : requests) {
    auto& session = static_cast<Session&>(*request.session->get());
    if (const auto denied = dispatch.give(session, request.frame))
      log_refusal(refusals, session.address(), reason_of(*denied), denied->what());
  }
}

// On the io thread, as all that is asked. What still has no actor is held again.
void Server::provide(std::function<void(Dispatch&)> serve) {
  asio::post(transport_.io(), [dispatch = dispatch_, refusals = refusals_, serve = std::move(serve)] {
    serve(*dispatch);
    for (HeldRequest& held : dispatch->take_held())
      ask(*dispatch, *refusals, static_cast<Session&>(*held.session->get()), held.frame);
  });
}

// The client says at its end what happened, too: then both ends of a broken network are in some log.
void Server::ended(Session& session, const Error& why) {
  const bool cut = why.code() == ErrorCode::kTimeout;
  if (cut)
    spdlog::warn("cut the connection of {} {}: {}", name(session.role()), session.address(), why.what());
  session.cleanup(to_caf(Error(cut ? ErrorCode::kTimeout : ErrorCode::kUnavailable, why.what())), nullptr);
}

}  // namespace embers
