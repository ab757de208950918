// Connections whose peer, or whose network, is no longer there: noticed at both ends, cut, and made again.
#include "actors/transport/connections/liveness.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "tests/actors/transport_testing.h"
#include "tests/support/network_faults.h"
#include "tests/support/process.h"

namespace embers {
namespace {

using namespace testing_support;
using Way = FaultyProxy::Way;

// --- the rules -----------------------------------------------------------------------------------

// Moments are in seconds, silence is 4 s: a check each second.
class Rules : public testing::Test {
 protected:
  static Liveness::Clock::time_point at(double seconds) {
    return Liveness::Clock::time_point(
        std::chrono::duration_cast<Liveness::Clock::duration>(Liveness::Duration(100 + seconds)));
  }
  // Checks each second up to this moment; the moment and the reason of a cut.
  std::optional<std::pair<int, std::string>> check_until(int last) {
    for (++second_; second_ <= last; ++second_) {
      each_second();
      if (const auto why = liveness_.check(at(second_), now_)) return std::pair(second_, *why);
    }
    --second_;
    return std::nullopt;
  }
  void expect_cut(int second, const std::string& part) {
    const auto cut = check_until(second + 20);
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->first, second);
    EXPECT_NE(cut->second.find(part), std::string::npos) << cut->second;
    EXPECT_NE(cut->second.find("4 s"), std::string::npos) << cut->second;
  }

  Liveness liveness_{Liveness::Duration(4), at(0)};
  ConnectionProgress now_;
  std::function<void()> each_second = [] {};
  int second_ = 0;
};

TEST_F(Rules, AreLookedAtFourTimesInTheTime) { EXPECT_EQ(liveness_.interval(), Liveness::Duration(1)); }

TEST_F(Rules, SilenceEndsAConnection) {
  each_second = [&] { now_.received += second_ <= 5 ? 1 : 0; };
  expect_cut(9, "no sign of life");
}

TEST_F(Rules, WhoWaitsForRoomBlamesNobodyForSilence) {
  now_.waits = true;
  now_.in_message = true;
  EXPECT_FALSE(check_until(50));
  now_.waits = false;
  expect_cut(54, "silent");
}

TEST_F(Rules, AMessageThatStopsInItsMiddleEndsAConnectionWhateverElseArrives) {
  each_second = [&] { ++now_.received; };
  EXPECT_FALSE(check_until(50));
  now_.in_message = true;
  now_.message = 7;
  expect_cut(55, "a message that it began");
}

TEST_F(Rules, AMessageMayTakeAnyTimeWhileItMoves) {
  now_.in_message = true;
  each_second = [&] {
    now_.received += 1;
    if (second_ % 3 == 0) now_.message = now_.received;
  };
  EXPECT_FALSE(check_until(1000));
}

TEST_F(Rules, APeerThatTakesNoBytesIsCut) {
  each_second = [&] { ++now_.received; };
  now_.sent = 10;
  now_.queued = 0;
  EXPECT_FALSE(check_until(50)) << "all was taken";
  now_.sent = 20;
  now_.queued = 5;
  now_.more = true;
  expect_cut(55, "took no bytes");
}

TEST_F(Rules, APeerThatTakesBytesSlowlyIsNot) {
  now_.sent = 1000;
  now_.queued = 1000;
  now_.more = true;
  each_second = [&] {
    ++now_.received;
    if (second_ % 3 == 0) --now_.queued;
  };
  EXPECT_FALSE(check_until(1000));
}

// What it reads may not open the window of TCP for long.
TEST_F(Rules, APeerThatSaysThatItReceivesTakesBytes) {
  now_.sent = now_.queued = 1000;
  now_.more = true;
  each_second = [&] {
    ++now_.received;
    if (second_ % 3 == 0) {
      EXPECT_FALSE(liveness_.peer_says(at(second_), second_, false, now_.sent));
    }
  };
  EXPECT_FALSE(check_until(900));
  each_second = [&] { ++now_.received; };
  expect_cut(904, "took no bytes");
}

TEST_F(Rules, APeerThatSaysThatItWaitsNeedNotTakeBytes) {
  now_.sent = now_.queued = 10;
  now_.more = true;
  each_second = [&] {
    ++now_.received;
    EXPECT_FALSE(liveness_.peer_says(at(second_), std::min(second_, 10), second_ <= 50, now_.sent));
  };
  EXPECT_FALSE(check_until(50));
  const auto cut = check_until(60);
  ASSERT_TRUE(cut);
  EXPECT_NE(cut->second.find("took no bytes"), std::string::npos) << cut->second;
}

TEST_F(Rules, BytesThatArriveNowhereEndAConnection) {
  std::optional<std::string> why;
  each_second = [&] {
    ++now_.received;
    now_.sent += 10;
    if (!why) why = liveness_.peer_says(at(second_), second_ <= 5 ? now_.sent - 3 : 47, false, now_.sent);
    if (second_ < 9) {
      EXPECT_FALSE(why) << second_;
    }
  };
  EXPECT_FALSE(check_until(20));
  ASSERT_TRUE(why);
  EXPECT_NE(why->find("did not reach it"), std::string::npos) << *why;
}

TEST_F(Rules, BytesThatTakeLongMayBeSeveralTimesTheSilenceBehind) {
  each_second = [&] {
    ++now_.received;
    now_.sent += 1000;
    EXPECT_FALSE(liveness_.peer_says(at(second_), second_ / 3, false, now_.sent)) << second_;
  };
  EXPECT_FALSE(check_until(1000));
}

TEST_F(Rules, NothingSentNeedNotArrive) {
  now_.sent = 10;
  each_second = [&] {
    ++now_.received;
    EXPECT_FALSE(liveness_.peer_says(at(second_), 10, false, 10));
  };
  EXPECT_FALSE(check_until(100));
}

// A peer that sends much says how much it has received only now and then.
TEST_F(Rules, APeerThatSaysNothingForLongIsBelieved) {
  each_second = [&] {
    ++now_.received;
    now_.sent += 10;
    if (second_ % 30 == 0) {
      EXPECT_FALSE(liveness_.peer_says(at(second_), now_.sent - 200, false, now_.sent));
    }
  };
  EXPECT_FALSE(check_until(300));
}

TEST_F(Rules, AProcessThatWasHeldUpItselfBlamesNobody) {
  now_.in_message = true;
  now_.sent = now_.queued = 10;
  EXPECT_FALSE(check_until(3));
  second_ = 99;
  EXPECT_FALSE(check_until(100));
  EXPECT_FALSE(liveness_.peer_says(at(100), 0, false, 10));
  EXPECT_FALSE(check_until(103));
  expect_cut(104, "silent");
}

// --- connections through a network that fails ------------------------------------------------------

constexpr auto kSilence = 1s;

Server::Options impatient() {
  Server::Options options;
  options.job = 7;
  options.silence = kSilence;
  return options;
}

struct Kept : AskingSide {
  explicit Kept(const std::string& address) : AskingSide({parse_endpoint(address)}) { link->keep(); }
};

// Stalls between frames, too, and in whatever frame comes first.
std::vector<Fault> all_faults(uint32_t frame_bytes) {
  std::vector<Fault> faults = network_faults(frame_bytes);
  faults.push_back({"StallsToServer", [](FaultyProxy& p) { p.stall(Way::kToServer); }});
  faults.push_back({"StallsToClient", [](FaultyProxy& p) { p.stall(Way::kToClient); }});
  faults.push_back({"StallsInASmallFrame", [](FaultyProxy& p) { p.stall_in_frame(Way::kBoth); }});
  return faults;
}

// Pulls whose request and reply have several chunks.
Message<wire::PullRequest> large_pull(uint64_t minibatch) {
  static const std::vector<int64_t> keys(3 << 18, 7);
  const TableSlices slices{0, KeysView{KeyKind::kInt64, keys, {}, {}}, 0, {}};
  Origin o = origin(minibatch);
  o.examples = 3 << 18;
  return make_pull(o, wire::ReadMode::LATEST, false, {&slices, 1});
}
float value_of_large(const Message<wire::PullReply>& reply) { return AskingSide::value_of(reply, 3 << 18); }

class Faults : public testing::TestWithParam<Fault> {
 protected:
  ServingSide server_{{"127.0.0.1:0"}, impatient()};
  FaultyProxy proxy_{server_.endpoints()[0].text()};
};

INSTANTIATE_TEST_SUITE_P(Network, Faults, testing::ValuesIn(all_faults(1 << 20)), name_of);

TEST_P(Faults, AKeptLinkAsksAgainOverAnotherConnection) {
  Kept client(proxy_.address());
  EXPECT_EQ(client.pull(1, 10), 1);
  GetParam().begin(proxy_);
  EXPECT_EQ(value_of_large(client.ask_shard(large_pull(2))), 2);
  EXPECT_EQ(client.pull(3, 10), 3);
  EXPECT_GE(proxy_.connections(), 2);
}

TEST_P(Faults, ALinkThatIsNotKeptAnswersWithTheReason) {
  AskingSide client({parse_endpoint(proxy_.address())});
  EXPECT_EQ(client.pull(1, 10), 1);
  GetParam().begin(proxy_);
  ErrorCode code = ErrorCode::kInternal;
  std::string what;
  try {
    client.ask_shard(large_pull(2));
    ADD_FAILURE() << "it was answered";
  } catch (
      const Error& e) {  // the end that cuts the connection first knows why; the other may only see its end
    code = e.code();
    what = e.what();
    EXPECT_TRUE(code == ErrorCode::kTimeout ? what.find("1 s") != what.npos : code == ErrorCode::kUnavailable)
        << what;
  }
  expect_error(code, {what}, [&] { client.pull(3, 1); });
}

TEST_P(Faults, TheServerNoticesAndGivesBackWhatTheMessageHeld) {
  AskingSide client({parse_endpoint(proxy_.address())});
  EXPECT_EQ(client.pull(1, 10), 1);
  GetParam().begin(proxy_);
  caf::scoped_actor self{client.system};
  self->send(client.shard, large_pull(2));
  EXPECT_TRUE(wait_until([&] { return server_.transport.connections() == 0; }));
  EXPECT_EQ(server_.transport.flow()->arriving()->taken(), 0);
}

// Only small frames move: pings.
using FaultsOfAnIdleLink = Faults;

INSTANTIATE_TEST_SUITE_P(Network, FaultsOfAnIdleLink, testing::ValuesIn(all_faults(1)), name_of);

TEST_P(FaultsOfAnIdleLink, AreNoticedToo) {
  Kept client(proxy_.address());
  EXPECT_EQ(client.pull(1, 10), 1);
  GetParam().begin(proxy_);
  EXPECT_TRUE(wait_until([&] { return proxy_.connections() >= 2; }));
  EXPECT_EQ(client.pull(2, 10), 2);
}

TEST(AKeptLink, TriesAgainWhenItsNextConnectionsFailToo) {
  ServingSide server({"127.0.0.1:0"}, impatient());
  FaultyProxy proxy(server.endpoints()[0].text());
  Kept client(proxy.address());
  EXPECT_EQ(client.pull(1, 1), 1);
  proxy.cut_silently(true);
  auto answer = std::async(std::launch::async, [&] { return client.pull(2, 1); });
  EXPECT_TRUE(wait_until([&] { return proxy.connections() >= 3; }));
  proxy.go_on();
  EXPECT_EQ(answer.get(), 2);
}

// The server may still take the connection before for a good one.
TEST(AServer, EndsTheConnectionBeforeWhenALinkHasMadeAnother) {
  Server::Options patient;
  patient.job = 7;
  patient.silence = 60s;
  ServingSide server({"127.0.0.1:0"}, patient);
  const auto connect = [&](uint64_t link) {
    auto peer = std::make_unique<RawPeer>(server.endpoints()[0]);
    peer->send(make_message<wire::Hello>([&](wire::Hello::Builder b) {
                 b.setProtocol(kProtocol);
                 b.setJob(7);
                 b.setNumberFormat(kNumberFormat);
                 b.setLink(link);
               }),
               Destination{}, 0);
    EXPECT_TRUE(peer->receive()) << "not welcomed";
    return peer;
  };
  const auto of_no_link = connect(0), of_another_link = connect(8), of_no_link_either = connect(0);
  auto latest = connect(9);
  for (int i = 0; i < 3; ++i) {
    const auto before = std::exchange(latest, connect(9));
    EXPECT_TRUE(wait_until([&] { return before->was_hung_up_on(); }, 20)) << "it is still open";
  }
  for (RawPeer* peer : {of_no_link.get(), of_another_link.get(), of_no_link_either.get(), latest.get()})
    EXPECT_FALSE(peer->was_hung_up_on());
}

TEST(AKeptLink, GivesUpWhenNoConnectionCanBeMade) {
  ServingSide server({"127.0.0.1:0"}, impatient());
  FaultyProxy proxy(server.endpoints()[0].text());
  Kept client(proxy.address());
  EXPECT_EQ(client.pull(1, 1), 1);
  proxy.cut_silently(true);
  expect_error(ErrorCode::kTimeout, {"no sign of life for 1 s", "cannot be reached again", "2 s"},
               [&] { client.pull(2, 1); });
  expect_error(ErrorCode::kTimeout, {"cannot be reached again"}, [&] { client.pull(3, 1); });
}

TEST(AKeptLink, EndsAtOnceWhenNobodyListensThereAnyMore) {
  auto server = std::make_unique<ServingSide>(std::vector<std::string>{"127.0.0.1:0"});  // 5 s
  Kept client(server->endpoints()[0].text());
  EXPECT_EQ(client.pull(1, 1), 1);
  server.reset();
  expect_error(ErrorCode::kUnavailable, {}, [&] { client.pull(2, 1); });
}

TEST(AKeptLink, AsksAgainInOrderAndIsAnsweredOnce) {
  ServingSide server({"127.0.0.1:0"}, impatient());
  FaultyProxy proxy(server.endpoints()[0].text());
  Kept client(proxy.address());
  EXPECT_EQ(client.pull(1, 1), 1);
  proxy.swallow(Way::kToServer);
  constexpr uint32_t kRequests = 2 * Connection::kMaxInFlight;
  caf::scoped_actor self{client.system};
  for (uint32_t i = 0; i < kRequests; ++i) self->send(client.shard, AskingSide::pull_request(i, 1));
  std::vector<float> values;
  uint32_t seen = 0;
  self->receive_for(seen, kRequests)(
      [&](const Message<wire::PullReply>& m) { values.push_back(AskingSide::value_of(m, 1)); });
  for (uint32_t i = 0; i < kRequests; ++i) ASSERT_EQ(values[i], i);
  EXPECT_EQ(client.pull(5, 1), 5);
  EXPECT_FALSE(self->has_next_message());
}

TEST(AKeptLink, IsUsedByManyThreadsWhileConnectionsBreak) {
  ServingSide server({"127.0.0.1:0"}, impatient());
  FaultyProxy proxy(server.endpoints()[0].text());
  Kept client(proxy.address());
  EXPECT_EQ(client.pull(1, 1), 1);
  constexpr uint32_t kThreads = 4;
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; !over; ++i) {
        const uint32_t number = (t * 1000 + i) % 5000;
        EXPECT_EQ(client.pull(number, i % 8 == 0 ? 3 << 18 : 1 + i % 100), number);
      }
    });
  for (size_t i = 0; i < 4; ++i) {
    i % 2 == 0 ? proxy.stall(Way::kBoth) : proxy.stall_in_frame(Way::kToClient, 1 << 20);
    EXPECT_TRUE(wait_until([&] { return proxy.connections() >= i + 2; }));
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

// --- peers byte by byte --------------------------------------------------------------------------

Message<wire::Ping> ping(uint64_t received = 0) {
  return make_message<wire::Ping>([&](wire::Ping::Builder b) { b.setReceived(received); });
}

class Peers : public testing::TestWithParam<const char*> {
 protected:
  Peers() { peer_.shake_hands(); }
  std::string address() const {
    return GetParam() == std::string("unix") ? "unix:" + (dir_ / "socket") : "127.0.0.1:0";
  }
  // Another address is another host.
  static std::string from() { return GetParam() == std::string("another_host") ? "127.0.0.2" : ""; }
  bool send_ping() { return peer_.send(ping(), Destination{}, 0); }
  static void pause() { std::this_thread::sleep_for(kSilence / 8); }

  TempDir dir_;
  ServingSide server_{{address()}, impatient()};
  RawPeer peer_{server_.endpoints()[0], from()};
};

INSTANTIATE_TEST_SUITE_P(Over, Peers, testing::Values("tcp", "unix", "another_host"),
                         [](auto& p) { return std::string(p.param); });

TEST_P(Peers, GetPings) {
  for (int i = 0; i < 3; ++i) {
    send_ping();
    const auto in = peer_.receive_any();
    ASSERT_TRUE(in);
    EXPECT_EQ(in->kind(), Kind::kPing);
  }
}

// Answers are signs of life, but only Pings say what has been received.
TEST_P(Peers, GetPingsAmongAnswersToo) {
  for (uint64_t request = 1, pings = 0; pings < 3; ++request) {
    ASSERT_LT(request, 1u << 20) << "and only " << pings << " pings";
    ASSERT_TRUE(peer_.send(AskingSide::pull_request(9, 3), Destination::kShard, request));
    const auto in = peer_.receive_any();
    ASSERT_TRUE(in);
    pings += in->kind() == Kind::kPing;
  }
}

TEST_P(Peers, ThatAreSilentAreCutAndTold) { EXPECT_EQ(peer_.receive_error().code(), ErrorCode::kTimeout); }

// The message has a share of what may arrive; a heartbeat beside it must not keep it for ever.
TEST_P(Peers, ThatStopInTheMiddleOfAMessageAreCutThoughTheySendOthers) {
  const std::string bytes = RawPeer::bytes_of(large_pull(1), Destination::kShard, 1);
  FrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.chunks = 4;
  header.words = kChunkWords;
  peer_.send(std::string(reinterpret_cast<const char*>(&header), sizeof header) +
             bytes.substr(sizeof header, kChunkWords * sizeof(capnp::word)));
  EXPECT_TRUE(wait_until([&] { return server_.transport.flow()->arriving()->taken() > 0; }));
  while (send_ping()) pause();
  EXPECT_TRUE(wait_until([&] { return server_.transport.flow()->arriving()->taken() == 0; }));
}

TEST_P(Peers, ThatSendALargeMessageSlowlyAreAnswered) {
  const std::string bytes = RawPeer::bytes_of(AskingSide::pull_request(9, 3), Destination::kShard, 1);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    ASSERT_TRUE(peer_.send(bytes.substr(i, 8))) << i;
    if (i % 24 == 0) pause();
  }
  auto in = peer_.receive();
  ASSERT_TRUE(in);
  EXPECT_EQ(AskingSide::value_of(decode<wire::PullReply>(*in), 3), 9);
}

// From another host, bytes are read when there are many; until then they count as well.
TEST_P(Peers, ThatSendManyBytesSlowlyAreAnswered) {
  const std::vector<int64_t> keys(1 << 16, 7);
  const TableSlices slices{0, KeysView{KeyKind::kInt64, keys, {}, {}}, 0, {}};
  Origin o = origin(9, 3);
  o.examples = 3;
  const std::string bytes =
      RawPeer::bytes_of(make_pull(o, wire::ReadMode::LATEST, false, {&slices, 1}), Destination::kShard, 1);
  for (size_t i = 0; i < bytes.size(); i += 1 << 15) {
    ASSERT_TRUE(peer_.send(bytes.substr(i, 1 << 15))) << i;
    pause();
  }
  for (int i = 0; i < 2; ++i) {  // and what follows is small
    auto in = peer_.receive();
    ASSERT_TRUE(in);
    EXPECT_EQ(AskingSide::value_of(decode<wire::PullReply>(*in), 3), 9);
    peer_.send(AskingSide::pull_request(9, 3), Destination::kShard, 2);
  }
}

TEST_P(Peers, ThatTakeNoBytesAreCut) {
  for (uint64_t i = 0; i < 8; ++i)
    peer_.send(AskingSide::pull_request(i, 1 << 20), Destination::kShard, i + 1);
  while (send_ping()) pause();
  EXPECT_TRUE(wait_until([&] { return server_.transport.connections() == 0; }));
}

TEST_P(Peers, ThatTakeBytesSlowlyAreNot) {
  peer_.send(AskingSide::pull_request(4, 6 << 18), Destination::kShard, 1);
  for (uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(peer_.read(1 << 16)) << "after " << i << " parts";
    ASSERT_TRUE(peer_.send(ping(i << 16), Destination{}, 0));
    pause();
  }
}

// 256 requests without an answer: the server reads nothing more.
TEST_P(Peers, OfAServerThatHasNoRoomWaitAsLongAsItSaysSo) {
  AskingSide client(server_.endpoints());
  caf::scoped_actor self{client.system};
  for (uint64_t i = 0; i <= Connection::kMaxInFlight; ++i) self->send(client.shard, AskingSide::exact_pull());
  const std::vector<int64_t> keys(4 << 18, 7);
  const TableSlices slices{0, KeysView{KeyKind::kInt64, keys, {}, {}}, 0, {}};
  self->send(client.shard, make_pull(origin(1), wire::ReadMode::LATEST, false, {&slices, 1}));
  self->monitor(client.shard.address());
  for (int i = 0; i < 12; ++i) pause();
  EXPECT_FALSE(self->has_next_message()) << "the connection was cut";
}

}  // namespace
}  // namespace embers
