// What takes no secret: this host, and of its abstract sockets those of the same user.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

#include "tests/actors/guarded_server.h"

namespace embers {
namespace {

using namespace testing_support;

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
