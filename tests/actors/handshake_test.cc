// The door of a server: who gets in, with which secret and in which role, and what those who do not can cost.
#include <capnp/schema.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "actors/door/newcomers.h"
#include "actors/door/refusal_log.h"
#include "actors/door/roles.h"
#include "actors/door/secret.h"
#include "tests/actors/transport_testing.h"
#include "tests/support/log_lines.h"
#include "tests/support/process.h"

namespace embers {
namespace {

using namespace testing_support;

const Secret kSecret("0123456789abcdef0123456789abcdef"), kOtherSecret("another secret, which is as long");
const Credentials kCredentials{kSecret, false}, kOtherCredentials{kOtherSecret, false};

Message<wire::Hello> hello_with(std::span<const std::byte> nonce, wire::Role role = wire::Role::WORKER) {
  return make_message<wire::Hello>([&](wire::Hello::Builder b) {
    b.setProtocol(kProtocol);
    b.setJob(7);
    b.setNumberFormat(kNumberFormat);
    b.setRole(role);
    b.setNonce(as_data(nonce));
  });
}

Message<wire::Proof> proof_of(const Secret& secret, const Message<wire::Hello>& hello,
                              const Message<wire::Challenge>& challenge) {
  return make_message<wire::Proof>([&](wire::Proof::Builder b) {
    b.setMac(as_data(proof(secret, Prover::kClient, hello.words().bytes(), challenge.words().bytes())));
  });
}

Message<wire::Challenge> receive_challenge(RawPeer& peer) {
  auto in = peer.receive();
  if (!in) throw std::runtime_error("the server hung up instead of a challenge");
  return decode<wire::Challenge>(*in);
}

// --- the secret ----------------------------------------------------------------------------------

std::string in_hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

TEST(Proof, IsTheHmacThatItsHeaderDescribes) {  // computed with Python's hmac module
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const auto mac = [&](Prover prover, const char* hello, const char* challenge) {
    return in_hexadecimal(proof(kSecret, prover, bytes(hello), bytes(challenge)));
  };
  EXPECT_EQ(mac(Prover::kClient, "hello", "challenge"),
            "f2716adfac72f064bbaa35aadbae972852e14109f002ccf9257eced8d9b6b511");
  EXPECT_EQ(mac(Prover::kServer, "hello", "challenge"),
            "38a27c51dfcd782db020f94b1b5e78287b272ec1b9f70ef44237852e925c248d");
  EXPECT_NE(mac(Prover::kClient, "helloc", "hallenge"), mac(Prover::kClient, "hello", "challenge"));
}

TEST(Proof, IsEqualOnlyToItself) {
  const Mac mac = proof(kSecret, Prover::kClient, {}, {});
  Mac other = mac;
  EXPECT_TRUE(is_equal(mac, other));
  for (size_t i = 0; i < other.size(); ++i) {
    other = mac;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(is_equal(mac, other)) << i;
  }
  EXPECT_FALSE(is_equal(mac, std::span(mac).first(31)));
  EXPECT_FALSE(is_equal(mac, {}));
}

TEST(ASecret, HasAUsefulLengthAndIsNotRepeatedInErrors) {
  for (const size_t length : {size_t{1}, Secret::kFewest - 1, Secret::kMost + 1}) {
    const std::string text(length, 'q');
    try {
      Secret secret(text);
      ADD_FAILURE() << length;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalid);
      EXPECT_EQ(std::string(e.what()).find("qqq"), std::string::npos) << e.what();
    }
  }
  EXPECT_FALSE(Secret());
  const Secret made = Secret::make();
  EXPECT_EQ(made.bytes().size(), 64u);
  EXPECT_NE(made.bytes(), Secret::make().bytes());
  EXPECT_NE(make_nonce(), make_nonce());
}

class GuardedServer : public testing::Test {
 protected:
  // Each server logs on its own.
  explicit GuardedServer(Server::Options options = {7, false})
      : server_({"127.0.0.1:0"}, options, kCredentials) {}
  ~GuardedServer() override {
    EXPECT_EQ(good_.pull(5, 10), 5) << "another client noticed";
    EXPECT_EQ(AskingSide(server_.endpoints(), kWorker, 10s, kCredentials).pull(6, 10), 6) << "nobody gets in";
  }
  void expect_denied(const std::string& part, const Credentials& credentials) {
    AskingSide client(server_.endpoints(), kWorker, 10s, credentials);
    expect_error(ErrorCode::kDenied, {part}, [&] { client.pull(1, 1); });
  }
  void expect_logged_once(const std::string& part) {
    EXPECT_TRUE(wait_until([&] { return log_.count(part) > 0; })) << part;
    EXPECT_EQ(log_.count(part), 1u) << part;
  }

  LogLines log_;
  ServingSide server_;
  AskingSide good_{server_.endpoints(), kWorker, 10s, kCredentials};
};

TEST_F(GuardedServer, LetsInWhoKnowsTheSecret) { EXPECT_EQ(good_.pull(3, 1 << 20), 3); }

TEST_F(GuardedServer, RefusesWhoShowsNoSecret) {
  for (int i = 0; i < 3; ++i) expect_denied("asks for its secret", {});
  expect_logged_once("refused 127.0.0.1: this job asks for its secret");
}

TEST_F(GuardedServer, RefusesWhoKnowsAnotherSecret) {
  for (int i = 0; i < 3; ++i) expect_denied("wrong secret", kOtherCredentials);
  expect_logged_once("refused 127.0.0.1: wrong secret");
  EXPECT_EQ(log_.count("refused"), 1u);
}

TEST_F(GuardedServer, ChallengesEachConnectionAnew) {
  std::set<std::string> nonces;
  for (int i = 0; i < 20; ++i) {
    RawPeer peer(server_.endpoints()[0]);
    peer.send(hello_with(make_nonce()), Destination{}, 0);
    const auto challenge = receive_challenge(peer);
    EXPECT_TRUE(nonces.insert(in_hexadecimal(as_bytes(challenge.get().getNonce()))).second);
    EXPECT_EQ(challenge.get().getNonce().size(), kNonceBytes);
  }
}

TEST_F(GuardedServer, RefusesARecordedHandshake) {
  std::string recorded_hello, recorded_proof;
  {
    RawPeer peer(server_.endpoints()[0]);
    const auto hello = hello_with(make_nonce());
    recorded_hello = RawPeer::bytes_of(hello, Destination{}, 0);
    peer.send(recorded_hello);
    recorded_proof = RawPeer::bytes_of(proof_of(kSecret, hello, receive_challenge(peer)), Destination{}, 0);
    peer.send(recorded_proof);
    auto in = peer.receive();
    ASSERT_TRUE(in);
    decode<wire::Welcome>(*in);  // what is recorded was good
  }
  for (int i = 0; i < 3; ++i) {
    RawPeer peer(server_.endpoints()[0]);
    peer.send(recorded_hello);
    receive_challenge(peer);
    peer.send(recorded_proof);
    const Error error = peer.receive_error();
    EXPECT_EQ(error.code(), ErrorCode::kDenied) << error.what();
  }
  expect_logged_once("wrong secret");
}

// What the proof covers cannot be changed on the way.
TEST_F(GuardedServer, RefusesAProofOfAnotherHello) {
  using enum wire::Role;
  const Nonce nonce = make_nonce();
  const auto said = hello_with(nonce, MASTER), proven = hello_with(nonce, WORKER);
  RawPeer peer(server_.endpoints()[0]);
  peer.send(said, Destination{}, 0);
  peer.send(proof_of(kSecret, proven, receive_challenge(peer)), Destination{}, 0);
  EXPECT_EQ(peer.receive_error().code(), ErrorCode::kDenied);
}

TEST_F(GuardedServer, RefusesAServersProofFromAClient) {
  RawPeer peer(server_.endpoints()[0]);
  const auto hello = hello_with(make_nonce());
  peer.send(hello, Destination{}, 0);
  const auto challenge = receive_challenge(peer);
  peer.send(
      make_message<wire::Proof>([&](wire::Proof::Builder b) {
        b.setMac(as_data(proof(kSecret, Prover::kServer, hello.words().bytes(), challenge.words().bytes())));
      }),
      Destination{}, 0);
  EXPECT_EQ(peer.receive_error().code(), ErrorCode::kDenied);
}

TEST_F(GuardedServer, RefusesMessagesOutOfOrder) {
  const auto proof = make_message<wire::Proof>();
  const auto answer = [&](auto... messages) {
    RawPeer peer(server_.endpoints()[0]);
    for (const std::string& bytes : {messages...}) peer.send(bytes);
    if (sizeof...(messages) > 1) receive_challenge(peer);
    return peer.receive_error();
  };
  const std::string hello = RawPeer::bytes_of(hello_with(make_nonce()), Destination{}, 0),
                    pull = RawPeer::bytes_of(AskingSide::pull_request(1, 1), Destination::kShard, 1);
  EXPECT_EQ(answer(RawPeer::bytes_of(proof, Destination{}, 0)).code(), ErrorCode::kBadFrame);
  EXPECT_EQ(answer(pull).code(), ErrorCode::kBadFrame);
  EXPECT_EQ(answer(hello, hello).code(), ErrorCode::kBadFrame);
  EXPECT_EQ(answer(hello, pull).code(), ErrorCode::kBadFrame);
  EXPECT_EQ(answer(hello, RawPeer::bytes_of(proof, Destination{}, 0)).code(), ErrorCode::kDenied);
  const std::vector<std::byte> short_nonce(kNonceBytes - 1);
  EXPECT_EQ(answer(RawPeer::bytes_of(hello_with(short_nonce), Destination{}, 0)).code(),
            ErrorCode::kBadFrame);
}

TEST_F(GuardedServer, SaysNothingAboutTheRunToStrangers) {
  AskingSide stranger(server_.endpoints(), {8, 0, wire::Role::WORKER}, 10s, kOtherCredentials);
  expect_error(ErrorCode::kDenied, {}, [&] { stranger.pull(1, 1); });
  AskingSide member(server_.endpoints(), {8, 0, wire::Role::WORKER}, 10s, kCredentials);
  expect_error(ErrorCode::kMismatch, {"0000000000000007 here"}, [&] { member.pull(1, 1); });
}

TEST_F(GuardedServer, TellsAnOlderEmbersWhatIsWrong) {
  FrameHeader older;
  older.protocol = 5;
  older.kind = static_cast<uint16_t>(Kind::kHello);
  older.total = older.words = 8;
  RawPeer peer(server_.endpoints()[0]);
  peer.send(RawPeer::frame(older, {}));
  const Error error = peer.receive_error();
  EXPECT_EQ(error.code(), ErrorCode::kMismatch);
  EXPECT_NE(std::string(error.what()).find("the peer speaks protocol 5, this process 6: install the same"),
            std::string::npos)
      << error.what();
  expect_logged_once("refused 127.0.0.1: the peer speaks protocol 5");
}

TEST_F(GuardedServer, TakesOnlySmallMessagesFromStrangers) {
  FrameHeader large;
  large.kind = static_cast<uint16_t>(Kind::kHello);
  large.total = large.words = Connection::kHandshakeWords + 1;
  RawPeer peer(server_.endpoints()[0]);
  peer.send(RawPeer::frame(large, {}));
  const Error error = peer.receive_error();
  EXPECT_EQ(error.code(), ErrorCode::kBadFrame);
  EXPECT_NE(std::string(error.what()).find("1 to 128 are allowed"), std::string::npos) << error.what();
}

TEST_F(GuardedServer, LogsTextOfThePeerWithoutControlCharacters) {
  RawPeer peer(server_.endpoints()[0]);
  peer.send(RawPeer::hello(kProtocol, 7, "float32\n12:00:00 job ended\x1b[2J"), Destination{}, 0);
  peer.receive_error();
  expect_logged_once("float32?12:00:00 job ended?[2J");
}

// --- servers that are not the job's --------------------------------------------------------------

// Takes one connection, and answers what `script` answers to it; keeps what came afterwards.
class RogueServer {
 public:
  explicit RogueServer(std::function<void(RawPeer& client, const Message<wire::Hello>& hello)> script) {
    thread_ = std::thread([this, script = std::move(script)] {
      RawPeer client(acceptor_);
      auto in = client.receive();
      if (!in) return;
      script(client, decode<wire::Hello>(*in));
      while (auto more = client.receive()) kinds_.insert(std::string(name(more->kind())));
    });
  }
  Endpoint endpoint() const {
    return {false, "127.0.0.1", std::to_string(acceptor_.local_endpoint().port())};
  }
  // Kinds of messages that the client sent after its Hello.
  std::set<std::string> kinds() {
    if (thread_.joinable()) thread_.join();
    return kinds_;
  }
  ~RogueServer() { kinds(); }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_{io_, {boost::asio::ip::make_address("127.0.0.1"), 0}};
  std::set<std::string> kinds_;
  std::thread thread_;
};

Message<wire::Welcome> welcome_with(std::span<const std::byte> mac) {
  return make_message<wire::Welcome>([&](wire::Welcome::Builder b) { b.setMac(as_data(mac)); });
}
Message<wire::Challenge> challenge_with(std::span<const std::byte> nonce) {
  return make_message<wire::Challenge>([&](wire::Challenge::Builder b) { b.setNonce(as_data(nonce)); });
}

// The client is refused nothing, but must refuse the server, and never sends the request that waits.
void expect_not_fooled(ErrorCode code,
                       std::function<void(RawPeer& client, const Message<wire::Hello>& hello)> script,
                       const Credentials& credentials = kCredentials) {
  RogueServer server(std::move(script));
  {
    AskingSide client({server.endpoint()}, kWorker, 10s, credentials);
    expect_error(code, {}, [&] { client.pull(1, 1); });
  }
  EXPECT_FALSE(server.kinds().contains("PullRequest"));
}

TEST(ALinkWithASecret, RefusesAServerThatAsksForNone) {
  expect_not_fooled(ErrorCode::kDenied, [](RawPeer& client, const auto&) {
    client.send(make_message<wire::Welcome>(), Destination{}, 0, FrameHeader::kReply);
  });
  ServingSide open;
  AskingSide client(open.endpoints(), kWorker, 10s, kCredentials);
  expect_error(ErrorCode::kDenied,
               {open.endpoints()[0].text(), "does not know the job's secret", "--insecure"},
               [&] { client.pull(1, 1); });
}

TEST(ALinkWithASecret, RefusesAServerThatDoesNotProveToKnowIt) {
  const auto after_challenge = [](auto make_welcome) {
    return [=](RawPeer& client, const Message<wire::Hello>& hello) {
      const auto challenge = challenge_with(make_nonce());
      client.send(challenge, Destination{}, 0, FrameHeader::kReply);
      auto in = client.receive();
      ASSERT_TRUE(in);
      const auto proof = decode<wire::Proof>(*in);
      client.send(make_welcome(hello, challenge, proof), Destination{}, 0, FrameHeader::kReply);
    };
  };
  expect_not_fooled(ErrorCode::kDenied, after_challenge([](const auto&, const auto&, const auto&) {
                      return make_message<wire::Welcome>();
                    }));
  expect_not_fooled(
      ErrorCode::kDenied, after_challenge([](const auto& hello, const auto& challenge, const auto&) {
        return welcome_with(
            proof(kOtherSecret, Prover::kServer, hello.words().bytes(), challenge.words().bytes()));
      }));
  // The client's own proof, sent back.
  expect_not_fooled(ErrorCode::kDenied, after_challenge([](const auto&, const auto&, const auto& theirs) {
                      return welcome_with(as_bytes(theirs.get().getMac()));
                    }));
}

// Recorded between a server and a client of the job, and played to another connection.
TEST(ALinkWithASecret, RefusesARecordedServer) {
  ServingSide real({"127.0.0.1:0"}, {7, false}, kCredentials);
  RawPeer peer(real.endpoints()[0]);
  const auto hello = hello_with(make_nonce());
  peer.send(hello, Destination{}, 0);
  const auto challenge = receive_challenge(peer);
  peer.send(proof_of(kSecret, hello, challenge), Destination{}, 0);
  auto in = peer.receive();
  ASSERT_TRUE(in);
  const auto welcome = decode<wire::Welcome>(*in);
  expect_not_fooled(ErrorCode::kDenied, [&](RawPeer& client, const auto&) {
    client.send(challenge, Destination{}, 0, FrameHeader::kReply);
    client.send(welcome, Destination{}, 0, FrameHeader::kReply);
  });
}

TEST(ALinkWithASecret, RefusesMessagesThatAreNoHandshake) {
  const auto sends = [](const auto&... messages) {
    return [=](RawPeer& client, const auto&) {
      (client.send(messages, Destination{}, 0, FrameHeader::kReply), ...);
    };
  };
  const auto challenge = challenge_with(make_nonce());
  expect_not_fooled(ErrorCode::kBadFrame, sends(challenge, challenge));
  expect_not_fooled(ErrorCode::kBadFrame, sends(challenge_with({})));
  expect_not_fooled(ErrorCode::kBadFrame, sends(make_pull_reply(0, {}, nullptr)));
  expect_not_fooled(ErrorCode::kBadFrame, [&](RawPeer& client, const auto&) {
    client.send(challenge, Destination{}, 0);  // as a question
  });
}

TEST(ALinkWithoutASecret, DoesNotUnderstandAChallenge) {
  expect_not_fooled(ErrorCode::kBadFrame,
                    [](RawPeer& client, const auto&) {
                      client.send(challenge_with(make_nonce()), Destination{}, 0, FrameHeader::kReply);
                    },
                    {});
}

// A server that has no room for newcomers, or is about to end, hangs up.
TEST(ALink, TriesAgainWhenItIsHungUpOnInTheHandshake) {
  std::optional<RogueServer> rogue(std::in_place, [](RawPeer& client, const auto&) { client.hang_up(); });
  const Endpoint endpoint = rogue->endpoint();
  AskingSide client({endpoint});
  auto answer = std::async(std::launch::async, [&] { return client.pull(4, 1); });
  rogue->kinds();
  rogue.reset();
  ServingSide server({endpoint.text()});
  EXPECT_EQ(answer.get(), 4);
}

TEST(ALink, AsksWhereItsPeerIsBeforeEachRound) {
  ServingSide server;
  std::atomic<int> asked = 0;
  OneSide process;
  const auto link = Link::open(
      process.transport, "the master of 'dir'",
      [&] {
        if (++asked < 3) fail(ErrorCode::kUnavailable, "nothing is known yet");
        return server.endpoints();
      },
      kWorker, 10s);
  const auto shard = link->proxy<ShardInterface>(Destination::kShard);
  caf::scoped_actor self{process.system};
  EXPECT_EQ(AskingSide::value_of(ask(self.ptr(), shard, AskingSide::pull_request(8, 1)), 1), 8);
  EXPECT_EQ(asked, 3);
  process.transport.stop();
}

TEST(ALink, SaysWhatItKnewWhenNoAddressWasFound) {
  OneSide process;
  const auto shard =
      Link::open(
          process.transport, "the master of 'dir'",
          []() -> std::vector<Endpoint> { fail(ErrorCode::kUnavailable, "nothing is known"); }, kWorker, 0.1s)
          ->proxy<ShardInterface>(Destination::kShard);
  caf::scoped_actor self{process.system};
  expect_error(ErrorCode::kUnreachable, {"the master of 'dir'", "nothing is known"},
               [&] { ask(self.ptr(), shard, AskingSide::pull_request(8, 1)); });
}

// --- beyond this host ----------------------------------------------------------------------------

TEST(Endpoints, KnowWhetherTheyStayOnThisHost) {
  for (const char* const text : {"127.0.0.1:7700", "127.8.9.10:0", "localhost:1", "[::1]:7700", "unix:/run/s",
                                 "unix:@name", "[::ffff:127.0.0.1]:1"})
    EXPECT_TRUE(is_on_this_host(parse_endpoint(text))) << text;
  for (const char* const text : {"0.0.0.0:7700", "10.0.0.1:0", "[::]:1", "host:1", "[::ffff:10.0.0.1]:1",
                                 "128.0.0.1:1", "127.0.0.1.example.com:1"})
    EXPECT_FALSE(is_on_this_host(parse_endpoint(text))) << text;
}

TEST(BeyondThisHost, NobodyListensOrConnectsWithoutASecretUnlessToldSo) {
  OneSide open, guarded(kCredentials), insecure({{}, true});
  const Endpoint anywhere = parse_endpoint("0.0.0.0:0"), elsewhere = parse_endpoint("192.0.2.1:7700");
  expect_error(ErrorCode::kInvalid, {"cannot listen on 0.0.0.0:0", "--job-dir", "--insecure"}, [&] {
    Server::listen(open.transport, {anywhere}, {7, false});
  });
  expect_error(ErrorCode::kInvalid, {"cannot connect to 192.0.2.1:7700", "--secret-file"},
               [&] { Link::open(open.transport, {elsewhere}, kWorker, 1h); });
  const auto link = Link::open(
      open.transport, "x", [&] { return std::vector{elsewhere}; }, kWorker, 1h);
  caf::scoped_actor self{open.system};
  const auto shard = link->proxy<ShardInterface>(Destination::kShard);
  expect_error(ErrorCode::kInvalid, {"cannot connect to 192.0.2.1:7700"},
               [&] { ask(self.ptr(), shard, AskingSide::pull_request(8, 1)); });
  Server::listen(guarded.transport, {anywhere}, {7, false});
  Server::listen(insecure.transport, {anywhere}, {7, false});
}

// --- roles ---------------------------------------------------------------------------------------

// An actor that answers every request of its interface with an empty reply.
template <class... Requests>
auto spawn_fake(caf::actor_system& system, std::atomic<int>* asked, MessageList<Requests...>) {
  using Actor = typename Interface<MessageList<Requests...>>::Actor;
  return system.spawn(
      [](typename Actor::pointer, std::atomic<int>* asked) -> typename Actor::behavior_type {
        return {[asked](const Message<Requests>&) {
          ++*asked;
          return make_message<typename KindOf<Requests>::Reply>();
        }...};
      },
      asked);
}

template <class T>
Message<T> sample(wire::Role role) {
  return make_message<T>([&]([[maybe_unused]] typename T::Builder b) {
    if constexpr (std::is_same_v<T, wire::JoinRequest>) b.setRole(role);
  });
}

// Every kind of message as this role sends it, as a frame for this destination.
template <class... Messages>
std::map<Kind, std::string> frames(MessageList<Messages...>, wire::Role role, Destination destination) {
  return {{KindOf<Messages>::kind, RawPeer::bytes_of(sample<Messages>(role), destination, 1)}...};
}

std::vector<wire::Role> all_roles() {
  std::vector<wire::Role> roles;
  for (const auto role : capnp::Schema::from<wire::Role>().getEnumerants())
    roles.push_back(static_cast<wire::Role>(role.getOrdinal()));
  return roles;
}

class Roles : public testing::Test {
 protected:
  Roles() {
    serve<MasterRequests>(Destination::kMaster);
    serve<OptimizerRequests>(Destination::kOptimizer);
    serve<ShardRequests>(Destination::kShard);
    server_.server->start();
  }
  ~Roles() override {
    server_.server.reset();
    server_.transport.stop();
    for (const caf::actor& actor : actors_) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  template <class Requests>
  void serve(Destination destination) {
    const auto actor = spawn_fake(server_.system, &asked_, Requests());
    actors_.push_back(caf::actor_cast<caf::actor>(actor));
    server_.server->serve<Interface<Requests>>(destination, actor);
  }

  struct Serving : OneSide {
    std::shared_ptr<Server> server = Server::listen(transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
  };
  LogLines log_;
  std::atomic<int> asked_ = 0;
  Serving server_;
  std::vector<caf::actor> actors_;
};

TEST_F(Roles, AreRefusedEveryMessageThatIsNotTheirs) {
  constexpr Destination kAll[] = {Destination::kMaster, Destination::kOptimizer, Destination::kShard};
  int allowed = 0;
  std::set<std::string> refusals;
  for (const wire::Role role : all_roles())
    for (const Destination destination : kAll)
      for (const auto& [kind, frame] : frames(AllMessages(), role, destination)) {
        if (kind == Kind::kPing) continue;  // which the transport itself takes from everybody
        const std::string what = fmt::format("{} sends {}", name(role), name(kind));
        const int before = asked_;
        RawPeer peer(server_.server->endpoints()[0]);
        peer.shake_hands(role);
        peer.send(frame);
        auto in = peer.receive();
        ASSERT_TRUE(in) << what;
        if (may_send(role, kind) && !in->error()) {
          EXPECT_EQ(asked_, before + 1) << what;
          ++allowed;
          continue;
        }
        EXPECT_EQ(asked_, before) << what;
        ASSERT_TRUE(in->error()) << what;
        try {
          throw_error_reply(*in);
        } catch (const Error& e) {
          EXPECT_EQ(name(e.code()), name(may_send(role, kind) ? ErrorCode::kBadFrame : ErrorCode::kDenied))
              << what;
          if (!may_send(role, kind)) {
            EXPECT_EQ(e.what(), fmt::format("the role {} may not send {}", name(role), name(kind)));
          }
        }
        if (!may_send(role, kind)) refusals.insert(what);
        EXPECT_FALSE(peer.receive()) << what << ", and the connection goes on";
      }
  int expected = 0;  // each request has one destination
  for (const wire::Role role : all_roles())
    for (const auto& [kind, frame] : frames(AllMessages(), role, Destination{}))
      expected += may_send(role, kind);
  EXPECT_EQ(allowed, expected);
  EXPECT_GT(refusals.size(), 100u);
  EXPECT_TRUE(wait_until([&] { return log_.count("may not send") >= refusals.size(); }));
  EXPECT_EQ(log_.count("may not send"), refusals.size())
      << "each is logged once, though it was sent three times";
}

TEST_F(Roles, AreNotChangedByAJoin) {
  using enum wire::Role;
  for (const wire::Role role : {WORKER, OWNER, READER})
    for (const auto claimed : {WORKER, OWNER, READER, ADMIN, MASTER, static_cast<wire::Role>(77)}) {
      RawPeer peer(server_.server->endpoints()[0]);
      peer.shake_hands(role);
      peer.send(sample<wire::JoinRequest>(claimed), Destination::kMaster, 1);
      const auto in = peer.receive();
      ASSERT_TRUE(in);
      EXPECT_EQ(in->error(), role != claimed) << name(role) << " as " << static_cast<int>(claimed);
    }
  EXPECT_EQ(asked_, 3);
}

TEST_F(Roles, AReaderCreatesNoRows) {
  for (const wire::Role role : {wire::Role::WORKER, wire::Role::READER})
    for (const bool create : {false, true}) {
      RawPeer peer(server_.server->endpoints()[0]);
      peer.shake_hands(role);
      peer.send(make_pull(origin(1), wire::ReadMode::LATEST, create, {}), Destination::kShard, 1);
      const auto in = peer.receive();
      ASSERT_TRUE(in);
      EXPECT_EQ(in->error(), role == wire::Role::READER && create);
    }
}

TEST_F(Roles, ThatNobodyKnowsAreRefused) {
  RawPeer peer(server_.server->endpoints()[0]);
  peer.send(RawPeer::hello(kProtocol, 7, kNumberFormat, static_cast<wire::Role>(42)), Destination{}, 0);
  const Error error = peer.receive_error();
  EXPECT_EQ(error.code(), ErrorCode::kMismatch);
  EXPECT_NE(std::string(error.what()).find("role 42 is unknown"), std::string::npos) << error.what();
}

TEST(ARole, ThatHasNothingToAskIsRefused) {
  ServingSide owner;  // serves pulls, restores and scans
  for (const wire::Role role : {wire::Role::OWNER, wire::Role::ADMIN}) {
    AskingSide client(owner.endpoints(), {7, 0, role});
    expect_error(ErrorCode::kDenied, {"has nothing to ask here", std::string(name(role))},
                 [&] { client.pull(1, 1); });
  }
}

// --- what strangers cost -------------------------------------------------------------------------

struct CrowdedServer : GuardedServer {
  CrowdedServer() : GuardedServer({7, false, 16, std::chrono::hours(1)}) {}
};

TEST_F(CrowdedServer, KeepsFewConnectionsThatDoNotShakeHands) {
  constexpr size_t kPeers = 300;
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (size_t i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<RawPeer>(server_.endpoints()[0]));
    if (i % 2) peers.back()->send("EMB1");
    if (i % 100 == 0) {
      EXPECT_EQ(good_.pull(i, 10), i) << "who is in goes on";
    }
  }
  EXPECT_EQ(AskingSide(server_.endpoints(), kWorker, 60s, kCredentials).pull(9, 10), 9)
      << "and others get in";
  const auto left = [&] {
    return static_cast<size_t>(
        std::count_if(peers.begin(), peers.end(), [](const auto& peer) { return !peer->was_hung_up_on(); }));
  };
  EXPECT_TRUE(wait_until([&] { return left() <= 16; })) << left();
  EXPECT_FALSE(peers.back()->was_hung_up_on()) << "the oldest go first";
  expect_logged_once("refused 127.0.0.1: more than 16 connections have not shaken hands");
}

TEST_F(CrowdedServer, LeavesRoomForOtherAddresses) {
  RawPeer other(server_.endpoints()[0], "127.0.0.2");
  const auto hello = hello_with(make_nonce());
  other.send(hello, Destination{}, 0);
  const auto challenge = receive_challenge(other);
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(std::make_unique<RawPeer>(server_.endpoints()[0]));
  EXPECT_TRUE(wait_until([&] { return crowd[80]->was_hung_up_on(); }));
  other.send(proof_of(kSecret, hello, challenge), Destination{}, 0);
  auto in = other.receive();
  ASSERT_TRUE(in) << "the oldest connection, but of another address";
  decode<wire::Welcome>(*in);
}

struct HastyServer : GuardedServer {
  HastyServer() : GuardedServer({7, false, 256, 200ms}) {}
};

TEST_F(HastyServer, HangsUpOnWhoeverTakesTooLong) {
  EXPECT_EQ(good_.pull(1, 1), 1);
  RawPeer silent(server_.endpoints()[0]), slow(server_.endpoints()[0]), undecided(server_.endpoints()[0]);
  undecided.send(hello_with(make_nonce()), Destination{}, 0);
  receive_challenge(undecided);
  // A byte now and then does not help: the last one never comes.
  std::string hello = RawPeer::bytes_of(hello_with(make_nonce()), Destination{}, 0);
  hello.pop_back();
  for (const char byte : hello) {
    slow.send({&byte, 1});
    if (slow.was_hung_up_on()) break;
    std::this_thread::sleep_for(2ms);
  }
  for (RawPeer* peer : {&silent, &slow, &undecided})
    EXPECT_TRUE(wait_until([&] { return peer->was_hung_up_on(); }));
  expect_logged_once("refused 127.0.0.1: it did not shake hands within 0.2 s");
  EXPECT_EQ(good_.pull(2, 1), 2) << "who is in has all the time there is";
}

TEST(Newcomers, MakeRoomByThePeerThatHasMost) {
  Newcomers newcomers(4);
  const auto a1 = newcomers.add("a"), b1 = newcomers.add("b"), b2 = newcomers.add("b"),
             c1 = newcomers.add("c");
  EXPECT_EQ(newcomers.make_room(), std::nullopt);
  const auto c2 = newcomers.add("c");
  EXPECT_EQ(newcomers.make_room(), b1) << "b and c have two; the oldest of these four";
  newcomers.add("a");
  EXPECT_EQ(newcomers.make_room(), a1);
  newcomers.remove(b2);
  newcomers.remove(b2);
  newcomers.remove(12345);
  EXPECT_EQ(newcomers.size(), 3u);
  const auto d1 = newcomers.add("d");
  EXPECT_EQ(newcomers.make_room(), std::nullopt);
  newcomers.add("d");
  EXPECT_EQ(newcomers.make_room(), c1);
  newcomers.add("d");
  EXPECT_EQ(newcomers.make_room(), d1);
  newcomers.remove(c2);
}

TEST(RefusalLogs, SayTheFirstAndThenCount) {
  RefusalLog log;
  RefusalLog::Clock::time_point now{};
  EXPECT_EQ(log.add("10.0.0.1", "denied", "wrong secret", now), "refused 10.0.0.1: wrong secret");
  EXPECT_EQ(log.add("10.0.0.1", "denied", "wrong secret", now + 9min), std::nullopt);
  EXPECT_EQ(log.add("10.0.0.1", "denied", "wrong secret", now + 9min), std::nullopt);
  EXPECT_EQ(log.add("10.0.0.1", "late", "it is late", now), "refused 10.0.0.1: it is late");
  EXPECT_EQ(log.add("10.0.0.2", "denied", "wrong secret", now), "refused 10.0.0.2: wrong secret");
  EXPECT_EQ(log.add("10.0.0.1", "denied", "wrong secret", now + 10min),
            "refused 10.0.0.1: wrong secret (2 more times since this was last said)");
  EXPECT_EQ(log.add("10.0.0.1", "denied", "wrong secret", now + 11min), std::nullopt);
}

TEST(RefusalLogs, HoldFewPeers) {
  RefusalLog log;
  const RefusalLog::Clock::time_point now{};
  size_t lines = 0;
  for (int i = 0; i < 100'000; ++i) lines += log.add(std::to_string(i), "r", "what", now).has_value();
  EXPECT_EQ(lines, RefusalLog::kMost + 1);
  EXPECT_EQ(log.add("late", "r", "what", now + 11min), "refused late: what") << "old ones make room";
}

TEST(RefusalLogs, AreOneLineEach) {
  EXPECT_EQ(printable("a\nb\tc\x7f", 100), "a?b?c?");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  RefusalLog log;
  EXPECT_LT(log.add("p", "r", std::string(10'000, 'x'), {})->size(), 400u);
}

// --- other users of this host --------------------------------------------------------------------

// Runs `what` in a thread of another user. False where this process may not do that.
bool as_another_user(const std::function<void()>& what) {
  constexpr uid_t kNobody = 65534;
  bool done = false;
  std::thread([&] {
    // The C library's function would change all threads.
    if (::syscall(SYS_setresuid, -1, kNobody, -1) != 0) return;
    what();
    done = true;
  }).join();
  return done;
}

#define SKIP_UNLESS_ROOT() \
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user"

TEST(AbstractSockets, TakeOnlyTheSameUser) {
  SKIP_UNLESS_ROOT();
  TempDir dir;
  const LogLines log;
  ServingSide server({"unix:@" + (dir / "socket")});
  EXPECT_TRUE(as_another_user([&] {
    for (int i = 0; i < 3; ++i) {
      RawPeer peer(server.endpoints()[0]);
      peer.send(RawPeer::hello(), Destination{}, 0);
      const Error error = peer.receive_error();
      EXPECT_EQ(error.code(), ErrorCode::kDenied);
      EXPECT_NE(std::string(error.what()).find("processes of user 0, not of user 65534"), std::string::npos)
          << error.what();
    }
  }));
  EXPECT_EQ(AskingSide(server.endpoints()).pull(5, 1), 5);
  EXPECT_TRUE(wait_until([&] { return log.count("refused user 65534 of this host") > 0; }));
  EXPECT_EQ(log.count("refused user 65534 of this host"), 1u);
}

TEST(AbstractSockets, OfAnotherUserAreNotTalkedTo) {
  SKIP_UNLESS_ROOT();
  TempDir dir;
  const Endpoint taken = parse_endpoint("unix:@" + (dir / "socket"));
  boost::asio::io_context io;
  std::optional<boost::asio::local::stream_protocol::acceptor> acceptor;
  ASSERT_TRUE(as_another_user([&] { acceptor.emplace(io, unix_address(taken)); }));
  AskingSide fooled({taken}, kWorker, 0.2s);
  expect_error(ErrorCode::kUnreachable, {taken.text(), "user 65534 listens there, not user 0"},
               [&] { fooled.pull(1, 1); });
  ServingSide server;
  AskingSide client({taken, server.endpoints()[0]});
  EXPECT_EQ(client.pull(5, 1), 5) << "by the next address";
}

}  // namespace
}  // namespace embers
