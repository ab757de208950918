// Servers that cannot be used, and servers that are full.
#include "storage/external/external_store.h"

#include <sys/socket.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "tests/storage/external_testing.h"
#include "tests/storage/store_testing.h"
#include "tests/support/closed_port.h"
#include "tests/support/expect_error.h"

namespace embers::storage {
namespace {

using testing_support::expect_error;
using testing_support::ServerProcess;
using testing_support::TempDir;
using Rows = std::vector<float>;

TEST_P(External, AnAddressWhereNobodyListensIsNamed) {
  const testing_support::ClosedPort closed;
  const std::string address = closed.address();
  expect_error(ErrorCode::kUnreachable, {address, "efused"}, [&] { GetParam().connect({address}); });
}

TEST_P(External, ASocketThatIsNotThereIsNamed) {
  const TempDir dir;
  // libmemcached does not say more.
  const char* const reason = GetParam().name == "redis" ? "o such file" : "is memcached running there?";
  expect_error(ErrorCode::kUnreachable, {dir / "socket", reason},
               [&] { GetParam().connect({"unix:" + (dir / "socket")}); });
}

TEST_P(External, ThePathOfASocketIsNeverCutOff) {
  const auto path_of = [](size_t size) { return "/" + std::string(size - 1, 'p'); };
  expect_error(ErrorCode::kUnreachable, {path_of(107)},
               [&] { GetParam().connect({"unix:" + path_of(107)}); });
  expect_error(ErrorCode::kInvalid, {path_of(108), "at most 107 bytes"},
               [&] { GetParam().connect({"unix:" + path_of(108)}); });
}

TEST_P(External, AHostThatDoesNotExistIsNamed) {
  const char* const reason = GetParam().name == "redis" ? "ame " : "LOOKUP";
  expect_error(ErrorCode::kUnreachable, {"nohost.invalid:11", reason},
               [&] { GetParam().connect({"nohost.invalid:11"}); });
}

TEST_P(External, AnAddressThatIsNoneIsRefused) {
  for (const char* const text : {"host", "host:", ":1", "host:0", "host:70000", "host:1x"})
    expect_error(ErrorCode::kInvalid, {text, "host:port"}, [&] { GetParam().connect({text}); });
  for (const char* const text : {"unix:", "unix:socket", "unix:./socket"})
    expect_error(ErrorCode::kInvalid, {text, "unix:/path"}, [&] { GetParam().connect({text}); });
}

TEST(WrongServer, RedisIsNoMemcachedAndTheOtherWayRound) {
  const ServerProcess memcached = ServerProcess::memcached(), redis = ServerProcess::redis();
  expect_error(ErrorCode::kUnreachable, {redis.address(), "memcached"},
               [&] { connect_memcached({redis.address()}); });
  expect_error(ErrorCode::kUnreachable, {memcached.address(), "Redis"},
               [&] { connect_redis({memcached.address()}); });
}

TEST(Memcached, RowsThatDoNotFitAreRefusedAtTheStart) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::memcached());
  const auto store = open_store(kMemcached, servers, {"job", 1, 0, ""});
  expect_error(ErrorCode::kInvalid, {"'huge'", servers[0].address(), "-I 3m"},
               [&] { store->add_table(spec("huge", 300'000), {}); });
  servers.clear();
  servers.push_back(ServerProcess::memcached({"-M", "-I", "4m"}));
  const auto roomy = open_store(kMemcached, servers, {"job", 1, 0, ""});
  roomy->add_table(spec("huge", 300'000), {});
  roomy->add_if_absent(0, ints({1}), Rows(300'000, 5));
  Rows row(300'000);
  std::vector<uint8_t> found(1);
  EXPECT_EQ(roomy->gather(0, ints({1}), row, found), 1u);
  EXPECT_EQ(row, Rows(300'000, 5));
}

// Fills the server until there is an error. Returns its message.
std::string fill(Store& store) {
  constexpr size_t kRows = 1000, kDim = 256;
  try {
    for (int64_t begin = 0; begin < 1'000'000; begin += kRows) {
      std::vector<int64_t> keys(kRows);
      for (size_t i = 0; i < kRows; ++i) keys[i] = begin + static_cast<int64_t>(i);
      store.add_if_absent(0, ints(keys), Rows(kRows * kDim));
      Rows rows(kRows * kDim);
      std::vector<uint8_t> found(kRows);
      store.gather(0, ints(keys), rows, found);
      store.update(0, ints(keys), rows, [](auto row, auto, auto) { row[0] = 1; });
    }
  } catch (const Error& e) {
    EXPECT_EQ(name(e.code()), name(ErrorCode::kLost)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "a full server took everything";
  return "";
}

TEST(Full, AMemcachedThatRefusesMoreIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::memcached({"-M", "-m", "64"}));
  const auto store = open_store(kMemcached, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find(servers[0].address()), std::string::npos) << said;
}

// Of many writes at once: it says of each that it refuses it.
TEST(Full, AMemcachedThatRefusesAWholeRestoreIsNoticed) {
  constexpr size_t kRows = 10000, kDim = 64;
  for (const ExternalKind& kind : {kMemcached, kMemcachedAtUnixSocket}) {
    std::vector<ServerProcess> servers;
    servers.push_back(kind.start({"-M", "-m", "64"}));
    const auto store = open_store(kind, servers, {"job", 1, 0, ""});
    store->add_table(spec("t", kDim), Rows(kDim));
    expect_error(ErrorCode::kLost, {servers[0].address(), "refused a write"}, [&] {
      for (int64_t begin = 0; begin < 1'000'000; begin += kRows) {
        std::vector<int64_t> keys(kRows);
        std::iota(keys.begin(), keys.end(), begin);
        store->restore(0, ints(keys), Rows(kRows * 2 * kDim));
      }
    });
  }
}
TEST(Full, AMemcachedThatEvictsIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::memcached({"-m", "64"}));
  const auto store = open_store(kMemcached, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find(servers[0].address() + " evicted"), std::string::npos) << said;
  EXPECT_EQ(said.find(": 0 of"), std::string::npos) << said;
}

TEST(Full, ARedisThatRefusesMoreIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::redis({"--maxmemory", "16mb"}));
  const auto store = open_store(kRedis, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find("maxmemory"), std::string::npos) << said;
}

TEST(Full, ARedisThatEvictsIsNoticed) {
  std::vector<ServerProcess> servers;
  servers.push_back(ServerProcess::redis({"--maxmemory", "16mb", "--maxmemory-policy", "allkeys-random"}));
  const auto store = open_store(kRedis, servers, {"job", 1, 0, ""});
  store->add_table(spec("t", 256), {});
  const std::string said = fill(*store);
  EXPECT_NE(said.find(servers[0].address()), std::string::npos) << said;
}

// Says "PONG" to each connection, and then `answer` to whatever it is asked, before it hangs up.
class BrokenRedis {
 public:
  BrokenRedis(int connections, const std::string& answer) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = testing_support::loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 8) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no socket");
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this, connections, answer] {
      for (int i = 0; i < connections; ++i) {
        const int client = accept(listener_, nullptr, nullptr);
        for (const std::string& text : {std::string("+PONG\r\n"), answer}) {
          char request[4096];
          if (recv(client, request, sizeof request, 0) <= 0) break;
          send(client, text.data(), text.size(), MSG_NOSIGNAL);
        }
        close(client);
      }
    });
  }
  ~BrokenRedis() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  const std::string& address() const { return address_; }

 private:
  int listener_;
  std::string address_;
  std::thread thread_;
};

TEST(BrokenServer, ARedisWhoseAnswerIsNotWholeIsUnavailableAndCanBeAskedAgain) {
  const std::pair<const char*, const char*> cases[] = {
      {"*2\r\n$3\r\none\r\n$3\r\nt", "closed"},
      {"*2\r\n", "closed"},
      {"*2\r\n$3\r\none\r\n?", "Protocol error"},
      {"*1\r\n$3\r\none\r\n", "an answer of the wrong length"},
      {"*3\r\n$3\r\none\r\n$3\r\none\r\n$3\r\none\r\n", "an answer of the wrong length"},
      {"*1\r\n*3\r\n$3\r\none\r\n$3\r\none\r\n$3\r\none\r\n", "an answer of the wrong length"},
      {"-LOADING it is not ready\r\n", "LOADING it is not ready"},
      {"$3\r\none\r\n", "an answer of the wrong length"},
  };
  for (const auto& [answer, why] : cases) {
    const BrokenRedis redis(2, answer);
    const KeyValueServers servers = connect_redis({redis.address()});
    KeyValueServer& server = *servers.all[0];
    const std::vector<std::string_view> names{"a", "b"};
    for (int time = 0; time < 2; ++time) {
      std::vector<std::string> seen;
      server.request(names);
      expect_error(ErrorCode::kUnavailable, {redis.address(), why}, [&] {
        server.receive([&](size_t, std::string_view value) { seen.emplace_back(value); });
      });
      EXPECT_LE(seen.size(), 1u);
      if (time == 0) server.reconnect();
    }
  }
}

// What a visitor throws leaves nothing of the answer behind.
TEST(BrokenServer, ARedisIsNotToBlameForWhatAVisitorThrows) {
  const ServerProcess redis = ServerProcess::redis();
  const KeyValueServers servers = connect_redis({redis.address()});
  KeyValueServer& server = *servers.all[0];
  const std::vector<std::string_view> names{"a", "none", "b"};
  server.set("a", "1");
  server.set("b", std::string(100'000, 'b'));  // longer than an MSET's share
  server.set("a", "2");
  server.add("a", "3");
  const auto read = [&](bool throws) {
    std::vector<std::pair<size_t, size_t>> seen;
    server.request(names);
    server.receive([&](size_t i, std::string_view value) {
      if (throws) throw std::runtime_error("not this one");
      seen.emplace_back(i, value.size());
    });
    return seen;
  };
  EXPECT_THROW(read(true), std::runtime_error);
  EXPECT_EQ(read(false), (std::vector<std::pair<size_t, size_t>>{{0, 1}, {2, 100'000}}));
  EXPECT_EQ(server.barrier("a").mark, "2");
  EXPECT_EQ(server.barrier("a").refused_writes, "");
}

}  // namespace
}  // namespace embers::storage
