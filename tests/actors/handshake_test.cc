// Who gets in at a server, with which secret, and which servers a client believes.
#include <atomic>
#include <set>
#include <thread>

#include "tests/actors/guarded_server.h"

namespace embers {
namespace {

using namespace testing_support;

// --- clients -------------------------------------------------------------------------------------

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
    const auto nonce = challenge.get().getNonce().asChars();
    EXPECT_TRUE(nonces.emplace(nonce.begin(), nonce.size()).second);
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
  EXPECT_NE(std::string(error.what()).find(fmt::format("the peer speaks protocol 5, this process {}: install the same", kProtocol)),
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

}  // namespace
}  // namespace embers
