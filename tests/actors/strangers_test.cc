// What those who do not get in may cost: connections, time, lines of the log.
#include <thread>

#include "actors/door/newcomers.h"
#include "actors/door/refusal_log.h"
#include "tests/actors/guarded_server.h"

namespace embers {
namespace {

using namespace testing_support;

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
  HastyServer() : GuardedServer({7, false, 256, 1s}) {}
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
  expect_logged_once("refused 127.0.0.1: it did not shake hands within 1 s");
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

}  // namespace
}  // namespace embers
