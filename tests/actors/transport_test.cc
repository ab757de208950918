// Conversations over real sockets of this host.
#include <sys/socket.h>

#include <future>
#include <thread>

#include "tests/actors/transport_testing.h"
#include "tests/support/closed_port.h"

namespace embers {
namespace {

using namespace testing_support;

class Transports : public testing::TestWithParam<const char*> {
 protected:
  std::string address() const {
    if (GetParam() == std::string("tcp")) return "127.0.0.1:0";
    return (GetParam() == std::string("abstract") ? "unix:@" : "unix:") + (dir_ / "socket");
  }
  TempDir dir_;
  ServingSide server_{{address()}};
  AskingSide client_{server_.endpoints()};
};

INSTANTIATE_TEST_SUITE_P(Over, Transports, testing::Values("tcp", "unix", "abstract"),
                         [](auto& p) { return std::string(p.param); });

TEST_P(Transports, ARequestGetsItsReply) { EXPECT_EQ(client_.pull(5, 100), 5); }

// As of an owner that recovers for longer than its peers try to connect.
TEST(Server, RequestsWaitForAnActorThatComesLater) {
  constexpr auto kThere = Destination::kOptimizer, kToCome = Destination::kShard;
  ServingSide side;
  const auto server = Server::listen(side.transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
  server->serve<ShardInterface>(kThere, side.shard);
  server->expect<ShardInterface>(kToCome);
  server->start();
  AskingSide client(server->endpoints()), gone(server->endpoints());
  caf::scoped_actor self{client.system};
  for (uint32_t i = 0; i < 3; ++i) self->send(client.shard, AskingSide::pull_request(i, 1));
  caf::anon_send(gone.shard, AskingSide::pull_request(3, 1));
  for (AskingSide* asking : {&client, &gone}) {  // what is answered at once has come behind what waits
    const auto there = asking->link->proxy<ShardInterface>(kThere);
    EXPECT_EQ(AskingSide::value_of(ask(self.ptr(), there, AskingSide::pull_request(9, 1)), 1), 9);
  }
  gone.transport.stop();
  EXPECT_FALSE(self->has_next_message());
  server->provide<ShardInterface>(kToCome, side.shard);
  std::vector<float> values;
  for (uint32_t seen = 0; seen < 3; ++seen)
    self->receive([&](const Message<wire::PullReply>& m) { values.push_back(AskingSide::value_of(m, 1)); });
  EXPECT_EQ(values, (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(client.pull(4, 1), 4);
}

TEST_P(Transports, AnErrorArrivesWithItsCodeAndMessage) {
  AskingSide master(server_.endpoints(), kMaster);
  const auto refused = [&] { master.ask_shard(make_restore({}, false)); };
  expect_error(ErrorCode::kMissingKey, {"table 't' has no row for key '7'"}, refused);
  expect_error(ErrorCode::kMissingKey, {}, refused);  // the connection goes on
}

TEST_P(Transports, MessagesOfManyChunksInterleaveWithSmallOnesAndArriveWhole) {
  constexpr uint32_t kLarge = 10 << 18;  // 10 MiB
  caf::scoped_actor self{client_.system};
  for (uint32_t i = 0; i < 40; ++i) {
    const uint32_t floats = i % 5 == 0 ? kLarge : i;
    self->send(client_.shard, AskingSide::pull_request(i, floats));
  }
  uint32_t seen = 0;
  std::vector<uint32_t> order;
  self->receive_for(seen, 40u)([&](const Message<wire::PullReply>& m) {
    const auto floats = static_cast<uint32_t>(m.get().getTables()[0].getRows().size() / 4);
    order.push_back(floats);
    const float value = AskingSide::value_of(m, floats);
    EXPECT_EQ(floats == 0 || static_cast<uint32_t>(value) % 5 == 0, floats == 0 || floats == kLarge) << value;
  });
  EXPECT_EQ(std::count(order.begin(), order.end(), kLarge), 8);
}

TEST_P(Transports, ALargeRequestArrivesWhole) {
  const std::vector<int64_t> keys(5 << 18, 7);
  const TableSlices slices{0, KeysView{KeyKind::kInt64, keys, {}, {}}, 0, {}};
  Origin o = origin(9);
  o.examples = 3;
  EXPECT_EQ(
      AskingSide::value_of(client_.ask_shard(make_pull(o, wire::ReadMode::LATEST, false, {&slices, 1})), 3),
      9);
}

TEST_P(Transports, MoreRequestsThanMayBeInFlightAreAllAnswered) {
  constexpr uint32_t kRequests = 4 * Connection::kMaxInFlight + 3;
  caf::scoped_actor self{client_.system};
  for (uint32_t i = 0; i < kRequests; ++i) self->send(client_.shard, AskingSide::pull_request(i, 1));
  std::vector<float> values;
  uint32_t seen = 0;
  self->receive_for(seen, kRequests)(
      [&](const Message<wire::PullReply>& m) { values.push_back(AskingSide::value_of(m, 1)); });
  std::sort(values.begin(), values.end());
  for (uint32_t i = 0; i < kRequests; ++i) ASSERT_EQ(values[i], i);
}

// Each sender writes to the socket itself, so many threads use one connection.
TEST_P(Transports, ManyThreadsAskAtOnceThroughOneConnection) {
  constexpr uint32_t kThreads = 4, kEach = 40;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t number = t * kEach + i;
        EXPECT_EQ(client_.pull(number, i % 8 == 0 ? 3 << 18 : 1 + i), number);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Transports, AProxyThatIsEndedAnswersWhatIsOpenAndWhatComesLater) {
  caf::scoped_actor self{client_.system};
  client_.pull(1, 1);
  auto open = self->request(client_.shard, caf::infinite, AskingSide::exact_pull());
  caf::anon_send_exit(client_.shard, caf::exit_reason::kill);
  open.receive([](const Message<wire::PullReply>&) { ADD_FAILURE() << "answered"; },
               [](caf::error& e) { EXPECT_EQ(from_caf(e).code(), ErrorCode::kUnavailable); });
  expect_error(ErrorCode::kUnavailable, {}, [&] { client_.pull(2, 1); });
  EXPECT_EQ(AskingSide(server_.endpoints()).pull(3, 1), 3) << "the server goes on";
}

TEST_P(Transports, TheEndOfAServedActorIsAnErrorToItsAskers) {
  client_.pull(1, 1);
  caf::anon_send_exit(server_.shard, caf::exit_reason::kill);
  expect_error(ErrorCode::kUnavailable, {}, [&] {
    for (;;) client_.pull(2, 1);  // until the shard is gone
  });
}

TEST_P(Transports, TheEndOfTheServerAnswersOpenRequestsAndEndsProxies) {
  caf::scoped_actor self{client_.system};
  client_.pull(1, 1);
  self->monitor(client_.shard.address());
  auto open = self->request(client_.shard, caf::infinite, AskingSide::exact_pull());
  server_.server->stop();
  server_.transport.stop();
  open.receive([](const Message<wire::PullReply>&) { ADD_FAILURE() << "answered"; },
               [](caf::error& e) { EXPECT_EQ(from_caf(e).code(), ErrorCode::kUnavailable); });
  self->receive([](const caf::down_msg& down) {
    EXPECT_EQ(from_caf(down.reason).code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(from_caf(down.reason).what()).find("connection"), std::string::npos);
  });
  expect_error(ErrorCode::kUnavailable, {}, [&] { client_.pull(2, 1); });
}

TEST_P(Transports, AServerThatDismissesItsPeersTellsThemWhy) {
  EXPECT_EQ(client_.pull(1, 1), 1);
  caf::scoped_actor self{client_.system};
  self->monitor(client_.shard);
  auto open = self->request(client_.shard, caf::infinite, AskingSide::exact_pull());
  server_.server->dismiss(Error(ErrorCode::kEnded, "the job 'live' has ended"));
  open.receive([](const Message<wire::PullReply>&) { ADD_FAILURE() << "answered"; },
               [](caf::error& e) { EXPECT_EQ(from_caf(e).code(), ErrorCode::kEnded); });
  self->receive([&](const caf::down_msg& down) {
    const Error why = from_caf(down.reason);
    EXPECT_EQ(why.code(), ErrorCode::kEnded);
    EXPECT_STREQ(why.what(), "the job 'live' has ended");
  });
  EXPECT_EQ(AskingSide(server_.endpoints()).pull(3, 1), 3) << "others may come";
  caf::anon_send_exit(server_.shard, caf::exit_reason::kill);  // and what it keeps unanswered
}

TEST_P(Transports, AClosedLinkTellsItsReason) {
  client_.pull(1, 1);
  caf::scoped_actor self{client_.system};
  self->monitor(client_.shard.address());
  client_.link->close(Error(ErrorCode::kFenced, "given up on"));
  self->receive([](const caf::down_msg& down) {
    EXPECT_EQ(from_caf(down.reason).code(), ErrorCode::kFenced);
    EXPECT_STREQ(from_caf(down.reason).what(), "given up on");
  });
}

// The actor that sends requests stands for the peer: when the peer ends, so does that actor.
TEST_P(Transports, TheServedActorNoticesTheEndOfAPeer) {
  std::promise<Error> ended;
  caf::actor_system& system = server_.system;
  const auto watching = [](ShardActor::pointer self,
                           std::promise<Error>* ended) -> ShardActor::behavior_type {
    self->set_down_handler([ended](caf::down_msg& down) { ended->set_value(from_caf(down.reason)); });
    return {[self](const Message<wire::PullRequest>&) {
              self->monitor(self->current_sender()->address());
              return make_pull_reply(0, {}, nullptr);
            },
            [](const Message<wire::RestoreRequest>&) { return make_message<wire::Empty>(); },
            [](const Message<wire::ImportRequest>&) { return make_message<wire::Empty>(); },
            [](const Message<wire::ScanRequest>&) { return make_message<wire::ScanReply>(); }};
  };
  const ShardActor watcher = system.spawn(watching, &ended);
  const auto server = Server::listen(server_.transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
  server->serve<ShardInterface>(Destination::kShard, watcher);
  server->start();
  {
    AskingSide client(server->endpoints());
    client.ask_shard(AskingSide::pull_request(1, 1));
  }
  auto error = ended.get_future();
  ASSERT_EQ(error.wait_for(20s), std::future_status::ready);
  EXPECT_EQ(error.get().code(), ErrorCode::kUnavailable);
  caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
}

TEST(Link, WaitsForAServerThatComesUpLater) {
  TempDir dir;
  const std::string address = "unix:" + (dir / "late");
  AskingSide client({parse_endpoint(address)});
  auto answer = std::async(std::launch::async, [&] { return client.pull(4, 1); });
  EXPECT_EQ(answer.wait_for(100ms), std::future_status::timeout);
  ServingSide server({address});
  EXPECT_EQ(answer.get(), 4);
}

TEST(Link, TriesItsAddressesInTurn) {
  TempDir dir;
  ServingSide server;
  AskingSide client({parse_endpoint("unix:" + (dir / "nobody")), server.endpoints()[0]});
  EXPECT_EQ(client.pull(4, 1), 4);
}

TEST(Link, GivesUpOnAnAddressWhereNobodyListensAndNamesIt) {
  const ClosedPort nobody;
  AskingSide client({parse_endpoint(nobody.address())}, kWorker, 0.2s);
  // Whoever asks later, when the link has given up, is told the same.
  for (uint64_t minibatch : {1, 2})
    expect_error(ErrorCode::kUnreachable, {"cannot reach " + nobody.address(), "0.2 s"},
                 [&] { client.pull(minibatch, 1); });
}

TEST(Link, GivesUpOnANameThatDoesNotResolve) {
  AskingSide client({parse_endpoint("no-such-host.invalid:7700")}, kWorker, 2s, {{}, true});
  expect_error(ErrorCode::kUnreachable, {"no-such-host.invalid:7700", "cannot resolve the host"},
               [&] { client.pull(1, 1); });
}

TEST(Link, GivesUpOnAServerThatTakesTheConnectionAndIsSilent) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor silent(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  AskingSide client({{false, "127.0.0.1", std::to_string(silent.local_endpoint().port())}}, kWorker, 1s);
  expect_error(ErrorCode::kUnreachable, {"accepted the connection but did not answer"},
               [&] { client.pull(1, 1); });
}

TEST(Link, GivesUpOnAHostThatDoesNotEvenRefuse) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor full(io, boost::asio::ip::tcp::v4());
  full.bind({boost::asio::ip::make_address("127.0.0.1"), 0});
  full.listen(0);  // its queue holds one connection; more get no answer at all
  std::vector<boost::asio::ip::tcp::socket> queue;
  for (int i = 0; i < 2; ++i) {
    queue.emplace_back(io);
    queue.back().async_connect(full.local_endpoint(), [](auto) {});
  }
  io.run_for(50ms);
  AskingSide client({{false, "127.0.0.1", std::to_string(full.local_endpoint().port())}}, kWorker, 0.3s);
  expect_error(ErrorCode::kUnreachable, {"cannot reach 127.0.0.1:"}, [&] { client.pull(1, 1); });
}

TEST(Link, ProcessEndsThoughItsLinkIsStillConnecting) {
  TempDir dir;
  AskingSide client({parse_endpoint("unix:" + (dir / "nobody"))}, kWorker, 1h);
  caf::scoped_actor self{client.system};
  self->monitor(client.shard.address());
  client.transport.stop();
  self->receive(
      [](const caf::down_msg& down) { EXPECT_EQ(from_caf(down.reason).code(), ErrorCode::kUnavailable); });
}

// An actor that asked through it would otherwise keep its system waiting.
TEST(Link, OpenedWhileItsProcessEndsAnswersSo) {
  ServingSide server;
  OneSide client;
  const auto ask_now = [&] {
    const auto link = Link::open(client.transport, server.endpoints(), kWorker, 10s);
    caf::scoped_actor self{client.system};
    ask(self.ptr(), link->proxy<ShardInterface>(Destination::kShard), AskingSide::pull_request(1, 1));
  };
  std::thread stops([&] { client.transport.stop(); });
  for (int i = 0; i < 20; ++i) {
    try {
      ask_now();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUnavailable) << e.what();
    }
  }
  stops.join();
  expect_error(ErrorCode::kUnavailable, {"this process is ending"}, ask_now);
}

TEST(Link, IsRefusedByAServerOfAnotherRunWhichSaysSo) {
  TempDir dir;
  ServingSide server({"127.0.0.1:0", "unix:" + (dir / "s")});
  for (const Endpoint& endpoint : server.endpoints()) {
    AskingSide client({endpoint}, {8, 0, wire::Role::WORKER});
    expect_error(ErrorCode::kMismatch, {"0000000000000007 here", "0000000000000008 at the peer"},
                 [&] { client.pull(1, 1); });
  }
}

TEST(Server, TakesStrangersOnlyIfItIsToldTo) {
  ServingSide open({"127.0.0.1:0"}, {7, true}), closed;
  EXPECT_EQ(AskingSide(open.endpoints(), {0, 0, wire::Role::WORKER}).pull(3, 1), 3);
  AskingSide stranger(closed.endpoints(), {0, 0, wire::Role::WORKER});
  expect_error(ErrorCode::kMismatch, {"job"}, [&] { stranger.pull(3, 1); });
}

TEST(Server, RefusesAnAddressInUseAndNamesIt) {
  ServingSide first;
  const std::string address = first.endpoints()[0].text();
  expect_error(ErrorCode::kInvalid, {"cannot listen on " + address, "in use"},
               [&] { ServingSide second({address}); });
}

TEST(Server, RefusesAUnixSocketInUse) {
  TempDir dir;
  for (const std::string kind : {"unix:", "unix:@"}) {
    const std::string address = kind + (dir / "socket");
    ServingSide first({address});
    expect_error(ErrorCode::kInvalid, {address, "in use"}, [&] { ServingSide second({address}); });
    EXPECT_EQ(AskingSide(first.endpoints()).pull(2, 1), 2);
  }
}

TEST(Server, ReplacesAUnixSocketThatADeadProcessLeft) {
  TempDir dir;
  {
    boost::asio::io_context io;
    boost::asio::local::stream_protocol::acceptor left(
        io, boost::asio::local::stream_protocol::endpoint(dir / "socket"));
  }
  ASSERT_TRUE(std::filesystem::exists(dir / "socket"));
  ServingSide server({"unix:" + (dir / "socket")});
  EXPECT_EQ(AskingSide(server.endpoints()).pull(2, 1), 2);
}

TEST(Server, DoesNotTakeAFileThatIsNoSocketForOneLeftBehind) {
  TempDir dir;
  std::ofstream(dir / "precious") << "data";
  expect_error(ErrorCode::kInvalid, {dir / "precious"},
               [&] { ServingSide server({"unix:" + (dir / "precious")}); });
  EXPECT_TRUE(std::filesystem::exists(dir / "precious"));
}

TEST(Server, RemovesItsUnixSocketAtTheEnd) {
  TempDir dir;
  { ServingSide server({"unix:" + (dir / "socket")}); }
  EXPECT_FALSE(std::filesystem::exists(dir / "socket"));
}

TEST(Server, NoLongerListensOnceItIsGone) {
  OneSide process;
  auto server = Server::listen(process.transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
  const Endpoint endpoint = server->endpoints()[0];
  server->start();
  server.reset();
  AskingSide client({endpoint}, kWorker, 0.2s);
  expect_error(ErrorCode::kUnreachable, {endpoint.text()}, [&] { client.pull(1, 1); });
}

TEST(Server, AClientThatDoesNotReadBlocksNobodyElse) {
  ServingSide server;
  RawPeer slow(server.endpoints()[0]);
  slow.shake_hands();
  for (uint64_t i = 0; i < 64; ++i)
    slow.send(AskingSide::pull_request(i, 1 << 20), Destination::kShard, i + 1);
  AskingSide client(server.endpoints());
  EXPECT_EQ(client.pull(5, 1 << 20), 5);
}

TEST(Endpoints, ReadAndWriteTheSameText) {
  for (const char* const text :
       {"localhost:7700", "127.0.0.1:0", "[::1]:65535", "unix:/run/embers.sock", "unix:@embers"})
    EXPECT_EQ(parse_endpoint(text).text(), text);
  EXPECT_EQ(parse_endpoint("[::1]:80").host, "::1");
}

TEST(Endpoints, RefuseWhatIsNoAddress) {
  for (const char* const text : {"", "host", ":80", "host:", "host:port", "host:65536", "host:-1", "host:80x",
                                 "unix:", "[]:80", "[::1", "[::1:80", "::1]:80"})
    expect_error(ErrorCode::kInvalid, {text}, [&] { parse_endpoint(text); });
  expect_error(ErrorCode::kInvalid, {"1 to 100 characters"},
               [&] { parse_endpoint("unix:/" + std::string(200, 'x')); });
}

}  // namespace
}  // namespace embers
