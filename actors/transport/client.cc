#include "actors/transport/client.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "actors/transport/addresses/local_address.h"
#include "actors/transport/addresses/unix_address.h"
#include "actors/transport/connections/peer_address.h"
#include "base/host.h"
#include "base/random_number.h"

namespace embers {
namespace asio = boost::asio;
namespace {

constexpr double kMaxSilence = 1e9;  // seconds
// How long one address of several may take to accept a connection: a share of the time that the link has.
constexpr auto kLeastConnect = std::chrono::milliseconds(500), kMostConnect = std::chrono::milliseconds(5000);

std::string join(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> texts;
  for (const Endpoint& e : endpoints) texts.push_back(e.text());
  return fmt::format("{}", fmt::join(texts, " or "));
}

// What the user can do about addresses that do not answer.
std::string advice(const std::vector<Endpoint>& endpoints) {
  const auto beyond =
      std::find_if(endpoints.begin(), endpoints.end(), [](const Endpoint& e) { return !is_on_this_host(e); });
  if (beyond == endpoints.end()) {
    const bool tcp =
        std::any_of(endpoints.begin(), endpoints.end(), [](const auto& e) { return !e.unix_socket; });
    return std::string("Is it running, and is the address right?") +
           (tcp ? " Only processes of this host reach this address: if it runs on another one, let it listen "
                  "there "
                  "on an address that this host reaches (--listen)"
                : "");
  }
  return fmt::format(
      "If it is running there, and the address is right, open TCP port {} of {} to connections from {}",
      beyond->port, beyond->host, host_name());
}

Message<wire::Hello> make_hello(const HelloInfo& info, uint64_t link, bool with_nonce) {
  return make_message<wire::Hello>([&](wire::Hello::Builder b) {
    b.setProtocol(kProtocol);
    b.setJob(info.job);
    b.setIncarnation(info.incarnation);
    b.setNumberFormat(kNumberFormat);
    b.setRole(info.role);
    b.setLink(link);
    if (with_nonce) b.setNonce(as_data(make_nonce()));
  });
}

}  // namespace

Link::Link(Transport& transport, std::string peer, FindEndpoints find, const HelloInfo& hello)
    : FrameLink(transport.system()),
      loop_(transport.loop()),
      transport_(transport),
      peer_(std::move(peer)),
      find_(std::move(find)),
      info_(hello),
      id_(random_number()),
      timer_(transport.io()),
      give_up_timer_(transport.io()),
      attempt_timer_(transport.io()),
      connect_timer_(transport.io()),
      resolver_(transport.io()) {}

std::shared_ptr<Link> Link::open(Transport& transport, std::vector<Endpoint> endpoints,
                                 const HelloInfo& hello, std::chrono::duration<double> timeout) {
  for (const Endpoint& endpoint : endpoints) transport.check_guarded(endpoint, "connect to");
  std::string peer = join(endpoints);
  return open(
      transport, std::move(peer), [endpoints = std::move(endpoints)] { return endpoints; }, hello, timeout);
}

std::shared_ptr<Link> Link::open(Transport& transport, std::string peer, FindEndpoints find,
                                 const HelloInfo& hello, std::chrono::duration<double> timeout) {
  std::shared_ptr<Link> link(new Link(transport, std::move(peer), std::move(find), hello));
  transport.adopt(link);
  transport.loop()->post([link, timeout] {
    if (link->down_) return;
    link->give_up_in(timeout);
    link->try_next();
  });
  return link;
}

void Link::give_up_in(std::chrono::duration<double> time) {
  timeout_ = time;
  deadline_ = std::chrono::steady_clock::now() +
              std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
  give_up_timer_.expires_at(deadline_);
  give_up_timer_.async_wait([self = shared_from_this()](auto e) {
    if (!e) self->give_up();
  });
}

void Link::close(const Error& why) {
  loop_->post([self = shared_from_this(), why] {
    if (self->connection_) self->connection_->close(why);
    self->down(why);
  });
}

void Link::finish() {
  loop_->post([self = shared_from_this()] {
    self->finishing_ = true;
    if (self->connection_)
      self->connection_->finish();
    else
      self->down(Error(ErrorCode::kUnavailable, "this process ended the connection"));
  });
}

void Link::try_next() {
  if (down_) return;
  try {
    if (attempt_ == 0) find_endpoints();
  } catch (const Error& e) {
    // A process that ends withdraws its addresses: none counts as refused.
    return remedy(e.code()) == Remedy::kRetry ? retry(e.what(), true) : down(e);
  }
  if (!lost_.empty()) limit_attempt();
  const Endpoint& endpoint = endpoints_.at(attempt_);
  if (endpoint.unix_socket)
    connect_unix(endpoint);
  else
    connect_tcp(endpoint);
}

void Link::find_endpoints() {
  endpoints_.clear();
  std::vector<Endpoint> found = find_();
  if (found.empty()) fail(ErrorCode::kInvalid, "{} has no address", peer_);
  for (const Endpoint& endpoint : found) transport_.check_guarded(endpoint, "connect to");
  endpoints_ = std::move(found);
}

void Link::connect_tcp(const Endpoint& endpoint) {
  resolver_.async_resolve(endpoint.host, endpoint.port, [self = shared_from_this()](auto e, auto results) {
    if (e) return self->retry("cannot resolve the host: " + e.message());
    auto addresses = std::make_shared<std::vector<asio::ip::tcp::endpoint>>();
    for (const auto& result : results) addresses->push_back(result.endpoint());
    self->connect_to(addresses, 0, true);
  });
}

// One address of a name after another. `refused`: by all before this one.
void Link::connect_to(const Addresses& addresses, size_t which, bool refused) {
  if (down_) return;
  auto socket = std::make_shared<asio::ip::tcp::socket>(loop_->context);
  cancel_ = [socket] {
    boost::system::error_code ignored;
    socket->close(ignored);
  };
  limit_connect(addresses->size());
  socket->async_connect(
      (*addresses)[which], [self = shared_from_this(), socket, addresses, which, refused](auto e) {
        self->connect_timer_.cancel();
        if (!e && !socket->is_open()) e = asio::error::operation_aborted;  // it came too late
        if (!e) return self->connected(Connection::Socket(std::move(*socket)));
        const bool all_refused = refused && e == asio::error::connection_refused;
        if (which + 1 < addresses->size()) return self->connect_to(addresses, which + 1, all_refused);
        self->retry(e == asio::error::operation_aborted ? "no answer" : e.message(), all_refused);
      });
}

// TCP alone repeats a connect that got no answer in ever longer intervals; a new one is sooner there.
void Link::limit_connect(size_t addresses) {
  const auto share = std::chrono::duration_cast<std::chrono::milliseconds>(
      timeout_ / static_cast<double>(2 * addresses * endpoints_.size()));
  connect_timer_.expires_after(std::clamp(share, kLeastConnect, kMostConnect));
  connect_timer_.async_wait([self = shared_from_this()](auto e) {
    if (!e && self->cancel_) std::exchange(self->cancel_, nullptr)();  // and its handler tries the next one
  });
}

void Link::connect_unix(const Endpoint& endpoint) {
  auto socket = std::make_shared<asio::local::stream_protocol::socket>(loop_->context);
  socket->async_connect(unix_address(endpoint), [self = shared_from_this(), socket,
                                                 abstract = is_abstract(endpoint)](auto e) {
    if (e)
      return self->retry(e.message(), e == asio::error::connection_refused ||
                                          e == boost::system::errc::no_such_file_or_directory);
    Connection::Socket connected(std::move(*socket));
    // Anybody may have taken a name that no file protects.
    if (const auto user = peer_user(connected); abstract && user != ::geteuid())
      return self->retry(fmt::format("user {} listens there, not user {}", user.value_or(-1), ::geteuid()));
    self->connected(std::move(connected));
  });
}

void Link::connected(Connection::Socket socket) {
  if (down_) return;
  cancel_ = nullptr;
  connection_ = transport_.adopt(std::move(socket));
  hello_ = make_hello(info_, id_, static_cast<bool>(transport_.secret()));
  challenge_ = {};
  connection_->on_frame = [self = shared_from_this()](InFrame frame) { self->receive(std::move(frame)); };
  connection_->on_close = [self = shared_from_this()](const Error& why) { self->ended(why); };
  connection_->start();
  connection_->send(out_frame(hello_, Destination{}, 0, 0));
}

// A server that hangs up during the handshake may be about to end, or have no room for newcomers: one that
// takes its place, or the next attempt, may succeed.
void Link::ended(const Error& why) {
  if (finishing_ || down_ || remedy(why.code()) != Remedy::kRetry) return down(why);
  if (welcomed_) return is_kept() ? connect_again(why) : down(why);
  connection_.reset();
  retry(why.what());
}

void Link::connect_again(const Error& why) {
  if (why.code() == ErrorCode::kTimeout)
    spdlog::warn("lost the connection to {}: {}; connecting again", peer_, why.what());
  lost_ = why.what();
  welcomed_ = false;
  connection_.reset();
  attempt_ = round_ = 0;
  disconnected();
  give_up_in(2 * silence_);
  try_next();
}

// Of several attempts the first ones may meet what the last connection met.
void Link::limit_attempt() {
  attempt_timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(silence_ / 2));
  attempt_timer_.async_wait([self = shared_from_this()](auto e) {
    if (e || self->welcomed_ || self->down_) return;
    if (self->connection_)
      self->connection_->close(Error(ErrorCode::kUnavailable, "it does not answer"));
    else if (self->cancel_)
      std::exchange(self->cancel_, nullptr)();  // and its handler tries the next one
  });
}

// A peer that accepts the connection but never answers is as unreachable as one that is not running.
void Link::give_up() {
  if (welcomed_ || down_) return;
  if (!lost_.empty())
    unreachable(reasons());
  else if (connection_)
    connection_->close(Error(
        ErrorCode::kUnreachable,
        fmt::format(
            "{} accepted the connection but did not answer within {} s: is its process stopped, its host too "
            "busy, or is it another program's address?",
            peer_, timeout_.count())));
  else
    unreachable(reasons());
}

void Link::unreachable(const std::string& why) {
  if (!lost_.empty()) {
    const auto connection = connection_;
    const Error error(ErrorCode::kTimeout,
                      fmt::format("{}, and {} cannot be reached again from {}: {} (tried for {} s)", lost_,
                                  peer_, host_name(), why, timeout_.count()));
    down(error);
    if (connection) connection->close(error);
    return;
  }
  down(Error(ErrorCode::kUnreachable, fmt::format("cannot reach {} from {}: {} (tried for {} s). {}", peer_,
                                                  host_name(), why, timeout_.count(), advice(endpoints_))));
}

void Link::retry(const std::string& reason, bool refused) {
  if (down_) return;
  attempt_timer_.cancel();
  all_refused_ = refused && (attempt_ == 0 || all_refused_);
  const bool named = endpoints_.empty() || peer_ == endpoints_[0].text();
  if (attempt_ == 0) failed_.clear();
  failed_.push_back(named ? reason : endpoints_[attempt_].text() + ": " + reason);
  auto pause = std::chrono::milliseconds(0);
  if (++attempt_ >= endpoints_.size()) {
    const bool has_listened = listened_ || !lost_.empty();
    if (all_refused_ && has_listened)  // its process is gone
      return down(Error(ErrorCode::kUnavailable,
                        lost_.empty() ? fmt::format("{} does not listen any more, as seen from {} ({})",
                                                    peer_, host_name(), reasons())
                                      : lost_));
    attempt_ = 0;
    ++round_;
    pause = std::min(std::chrono::milliseconds(2000),
                     std::chrono::milliseconds(25) * (1 << std::min<size_t>(round_, 8)));
  }
  if (std::chrono::steady_clock::now() + pause > deadline_) return unreachable(reasons());
  timer_.expires_after(pause);
  timer_.async_wait([self = shared_from_this()](auto e) {
    if (!e) self->try_next();
  });
}

// Why each endpoint could not be reached, when it was tried last.
std::string Link::reasons() const {
  return failed_.empty() ? "no answer" : fmt::format("{}", fmt::join(failed_, "; "));
}

void Link::receive(InFrame frame) {
  if (down_) return;  // its connection is about to be closed
  if (frame.header.correlation == 0 && frame.error()) return refused(frame);
  if (!welcomed_) return shake_hands(frame);
  deliver(frame);
}

void Link::shake_hands(InFrame& frame) {
  if (!frame.reply()) fail(ErrorCode::kBadFrame, "the peer asks before it has shaken hands");
  if (frame.kind() == Kind::kChallenge && transport_.secret() && !challenge_) {
    challenge_ = decode<wire::Challenge>(frame);
    decoding(Kind::kChallenge, [&] {
      if (challenge_.get().getNonce().size() != kNonceBytes)
        fail(ErrorCode::kBadFrame, "a nonce does not have {} bytes", kNonceBytes);
    });
    const auto message = make_message<wire::Proof>([&](wire::Proof::Builder b) {
      b.setMac(as_data(
          proof(transport_.secret(), Prover::kClient, hello_.words().bytes(), challenge_.words().bytes())));
    });
    return connection_->send(out_frame(message, Destination{}, 0, 0));
  }
  const auto welcome = decode<wire::Welcome>(frame);
  decoding(Kind::kWelcome, [&] { check_welcome(welcome.get()); });
  welcomed(Liveness::Duration(welcome.get().getSilence()));
}

void Link::welcomed(Liveness::Duration silence) {
  if (!(silence.count() > 0 && silence.count() <= kMaxSilence))
    fail(ErrorCode::kBadFrame, "{} would cut a connection after {} s of silence", peer_, silence.count());
  connection_->trust();
  connection_->watch(silence_ = silence);
  welcomed_ = true;
  give_up_timer_.cancel();
  attempt_timer_.cancel();
  if (!lost_.empty()) spdlog::info("connected to {} again", peer_);
  lost_.clear();
  use(connection_);
}

// Whoever listens there must know the secret as well.
void Link::check_welcome(wire::Welcome::Reader welcome) const {
  if (!transport_.secret()) return;
  if (challenge_ && is_equal(proof(transport_.secret(), Prover::kServer, hello_.words().bytes(),
                                   challenge_.words().bytes()),
                             as_bytes(welcome.getMac())))
    return;
  fail(ErrorCode::kDenied,
       "{} does not know the job's secret. It belongs to another job, or was started without a secret: then "
       "give --insecure here, too, or start it with --job-dir or --secret-file",
       peer_);
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
  timer_.cancel();
  give_up_timer_.cancel();
  attempt_timer_.cancel();
  connect_timer_.cancel();
  if (cancel_) std::exchange(cancel_, nullptr)();
  connection_.reset();
  welcomed_ = false;
  end(why);
}

}  // namespace embers
