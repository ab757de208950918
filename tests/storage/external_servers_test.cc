// Servers that cannot be used, and servers that are full.
#include "storage/external/external_store.h"

#include <numeric>

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

}  // namespace
}  // namespace embers::storage
