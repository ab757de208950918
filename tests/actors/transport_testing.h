#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "actors/ask.h"
#include "actors/transport/addresses/unix_address.h"
#include "actors/transport/client.h"
#include "actors/transport/server.h"
#include "tests/support/actors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace embers::testing_support {

using namespace std::chrono_literals;

inline const HelloInfo kWorker{7, 0, wire::Role::WORKER}, kMaster{7, 0, wire::Role::MASTER};

// A shard that answers pulls with origin.examples floats of value origin.minibatch, never answers those of an
// exact version, and refuses restores.
struct FakeShardState {
  std::vector<caf::typed_response_promise<Message<wire::PullReply>>> unanswered;
  static inline const char* name = "fake shard";
};
inline ShardActor::behavior_type fake_shard(ShardActor::stateful_pointer<FakeShardState> self,
                                            const std::string& refusal) {
  return {
      [self](const Message<wire::PullRequest>& m) -> caf::result<Message<wire::PullReply>> {
        if (m.get().getMode() == wire::ReadMode::EXACT)
          return self->state.unanswered.emplace_back(self->make_response_promise<Message<wire::PullReply>>());
        return guarded(Kind::kPullRequest, [&] {
          const Origin o = read(m.get().getOrigin());
          const RowsShape shape{0, 1, std::min(o.examples, 1u << 24)};
          const auto fill = [&](size_t, std::span<float> rows) {
            std::fill(rows.begin(), rows.end(), static_cast<float>(o.minibatch));
          };
          const WordsMemoryPtr memory = m.arrival() ? m.arrival()->memory() : nullptr;
          return make_pull_reply(o.version, {&shape, 1}, fill, memory.get());
        });
      },
      [refusal](const Message<wire::RestoreRequest>&) -> caf::result<Message<wire::Empty>> {
        return to_caf(Error(ErrorCode::kMissingKey, refusal));
      },
      [](const Message<wire::ImportRequest>&) -> caf::result<Message<wire::Empty>> {
        return make_message<wire::Empty>();
      },
      [](const Message<wire::ScanRequest>&) -> caf::result<Message<wire::ScanReply>> {
        return make_message<wire::ScanReply>();
      },
  };
}

// Like one process of a job: an actor system and a transport.
struct OneSide {
  explicit OneSide(const Credentials& credentials = {}) : transport(system, credentials) {}
  System system;
  Transport transport;
};

// A process that serves a fake shard of run 7.
struct ServingSide : OneSide {
  explicit ServingSide(std::vector<std::string> addresses = {"127.0.0.1:0"},
                       Server::Options options = {7, false}, const Credentials& credentials = {})
      : OneSide(credentials) {
    std::vector<Endpoint> endpoints;
    for (const std::string& address : addresses) endpoints.push_back(parse_endpoint(address));
    server = Server::listen(transport, endpoints, options);
    shard = static_cast<caf::actor_system&>(system).spawn(fake_shard,
                                                          std::string("table 't' has no row for key '7'"));
    server->serve<ShardInterface>(Destination::kShard, shard);
    server->start();
  }
  ~ServingSide() {
    server.reset();
    transport.stop();
    caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
  }
  std::vector<Endpoint> endpoints() const { return server->endpoints(); }

  std::shared_ptr<Server> server;
  ShardActor shard;
};

// A process that talks to one server.
struct AskingSide : OneSide {
  explicit AskingSide(std::vector<Endpoint> endpoints, const HelloInfo& hello = kWorker,
                      std::chrono::duration<double> timeout = 10s, const Credentials& credentials = {})
      : OneSide(credentials),
        link(Link::open(transport, std::move(endpoints), hello, timeout)),
        shard(link->proxy<ShardInterface>(Destination::kShard)) {}

  // The value of the floats of one pull, which are all the same; pulls are told apart by their minibatch.
  float pull(uint64_t minibatch, uint32_t floats) {
    caf::scoped_actor self{system};
    return value_of(ask(self.ptr(), shard, pull_request(minibatch, floats)), floats);
  }
  template <class T>
  auto ask_shard(const Message<T>& question) {
    caf::scoped_actor self{system};
    return ask(self.ptr(), shard, question);
  }
  // Never answered.
  static Message<wire::PullRequest> exact_pull() {
    return make_pull(origin(1), wire::ReadMode::EXACT, false, {});
  }
  static Message<wire::PullRequest> pull_request(uint64_t minibatch, uint32_t floats) {
    Origin o = origin(minibatch, 3);
    o.examples = floats;
    return make_pull(o, wire::ReadMode::LATEST, false, {});
  }
  static float value_of(const Message<wire::PullReply>& reply, uint32_t floats) {
    const auto rows = read_rows(reply.get(), 0, {0, 1, floats});
    for (const float x : rows)
      if (x != rows[0]) ADD_FAILURE() << "the reply is a mixture";
    return rows.empty() ? -1.0f : rows[0];
  }

  std::shared_ptr<Link> link;
  ShardActor shard;
};

// A peer that may send anything, byte by byte.
class RawPeer {
 public:
  // `from`: the address of this host that it connects from.
  explicit RawPeer(const Endpoint& server, const std::string& from = "") : socket_(io_) {
    const auto address = [](const std::string& host, const std::string& port) {
      return boost::asio::ip::tcp::endpoint(boost::asio::ip::make_address(host),
                                            static_cast<uint16_t>(std::stoi(port)));
    };
    if (server.unix_socket) {
      socket_.connect(unix_address(server));
    } else {
      socket_.open(boost::asio::ip::tcp::v4());
      if (!from.empty()) socket_.bind(address(from, "0"));
      socket_.connect(address(server.host, server.port));
    }
  }
  // One that has connected to a server of the test's own.
  explicit RawPeer(boost::asio::ip::tcp::acceptor& acceptor) : socket_(io_) {
    boost::asio::ip::tcp::socket socket(io_);
    acceptor.accept(socket);
    socket_ = Connection::Socket(std::move(socket));
  }
  // False when the server has hung up.
  bool send(std::string_view bytes) {
    boost::system::error_code e;
    boost::asio::write(socket_, boost::asio::buffer(bytes), e);
    return !e;
  }
  template <class T>
  bool send(const Message<T>& message, Destination destination, uint64_t correlation, uint16_t flags = 0) {
    return send(bytes_of(message, destination, correlation, flags));
  }
  template <class T>
  static std::string bytes_of(const Message<T>& message, Destination destination, uint64_t correlation,
                              uint16_t flags = 0) {
    FrameHeader h = out_frame(message, destination, correlation, flags).header;
    h.total = h.words = static_cast<uint32_t>(message.words().size());
    return frame(h, message.words().bytes());
  }
  static std::string frame(const FrameHeader& header, std::span<const std::byte> body) {
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
           std::string(reinterpret_cast<const char*>(body.data()), body.size());
  }
  // The next message that is not one between connections; nothing when the server has hung up.
  std::optional<InFrame> receive() {
    auto in = receive_any();
    while (in && is_of_connection(in->kind())) in = receive_any();
    return in;
  }
  std::optional<InFrame> receive_any() {
    InFrame in;
    boost::system::error_code e;
    boost::asio::read(socket_, boost::asio::buffer(&in.header, sizeof in.header), e);
    if (e) return std::nullopt;
    check(in.header, kMaxMessageWords);
    in.words = Words(in.header.words);
    boost::asio::read(socket_, boost::asio::buffer(in.words.data(), in.words.size() * 8), e);
    return e ? std::nullopt : std::optional(std::move(in));
  }
  // Reads so many bytes; false when the server has hung up.
  bool read(size_t bytes) {
    std::string ignored(bytes, '\0');
    boost::system::error_code e;
    boost::asio::read(socket_, boost::asio::buffer(ignored), e);
    return !e;
  }
  // The error that the server ends the connection with.
  Error receive_error() {
    auto in = receive();
    if (!in) return Error(ErrorCode::kInternal, "closed without an error");
    try {
      decode<wire::Welcome>(*in);
    } catch (const Error& e) {
      EXPECT_FALSE(receive()) << "the connection went on after: " << e.what();
      return e;
    }
    return Error(ErrorCode::kInternal, "no error");
  }
  void shake_hands(wire::Role role = wire::Role::WORKER) {
    send(hello(kProtocol, 7, kNumberFormat, role), Destination{}, 0);
    auto in = receive();
    ASSERT_TRUE(in);
    decode<wire::Welcome>(*in);
  }
  // Whether the server has hung up, without waiting for it.
  bool was_hung_up_on() {
    char byte;
    boost::system::error_code e;
    socket_.non_blocking(true);
    socket_.receive(boost::asio::buffer(&byte, 1), 0, e);
    socket_.non_blocking(false);
    return e && e != boost::asio::error::would_block;
  }
  static Message<wire::Hello> hello(uint32_t protocol = kProtocol, uint64_t job = 7,
                                    const std::string& format = kNumberFormat,
                                    wire::Role role = wire::Role::WORKER) {
    return make_message<wire::Hello>([&](wire::Hello::Builder b) {
      b.setProtocol(protocol);
      b.setJob(job);
      b.setNumberFormat(format);
      b.setRole(role);
    });
  }
  void hang_up() { socket_.close(); }

 private:
  boost::asio::io_context io_;
  Connection::Socket socket_;
};

}  // namespace embers::testing_support
