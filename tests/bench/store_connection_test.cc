#include "bench/storage/store_connection.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <optional>

#include "base/errors.h"
#include "tests/support/servers.h"

namespace embers {
namespace {

using testing_support::ServerProcess;

constexpr size_t kFloats = 192;

std::string path_of(const ServerProcess& server) { return server.address().substr(5); }

std::vector<int64_t> keys_up_to(int64_t n) {
  std::vector<int64_t> keys(static_cast<size_t>(n));
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

std::optional<ErrorCode> code_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& e) {
    return e.code();
  }
  return std::nullopt;
}

// Of both servers, each protocol.
class StoreConnections : public testing::TestWithParam<std::string> {
 protected:
  static ServerProcess start(const std::string& memory) {
    if (GetParam() == "resp") return ServerProcess::redis_at_unix_socket({"--maxmemory", memory + "mb"});
    return ServerProcess::memcached_at_unix_socket({"-M", "-m", memory});
  }

  const ServerProcess server_ = start("64");
  const std::unique_ptr<StoreConnection> connection_ = connect_store(GetParam(), path_of(server_), kFloats);
};

INSTANTIATE_TEST_SUITE_P(Protocols, StoreConnections, testing::Values("resp", "binary", "meta"),
                         [](const auto& info) { return info.param; });

TEST_P(StoreConnections, ReadWhatTheyUpdated) {
  const std::vector<int64_t> keys = keys_up_to(10'000);
  connection_->fill(keys, 4096, std::vector<float>(kFloats, 0.5f));
  for (const size_t chunk : {size_t{1}, size_t{100}, size_t{4096}, keys.size()}) {
    size_t next = 0;
    connection_->update(keys, chunk, [&](size_t i, std::span<float> value) {
      EXPECT_EQ(i, next++);
      value[0] += static_cast<float>(i);
      value[kFloats - 1] -= static_cast<float>(i);
    });
    EXPECT_EQ(next, keys.size());
  }
  size_t next = 0;
  connection_->read(keys, 300, [&](size_t i, std::span<const float> value) {
    ASSERT_EQ(i, next++);
    ASSERT_EQ(value.size(), kFloats);
    ASSERT_EQ(value[0], 0.5f + 4 * static_cast<float>(i));
    ASSERT_EQ(value[1], 0.5f);
    ASSERT_EQ(value[kFloats - 1], 0.5f - 4 * static_cast<float>(i));
  });
  EXPECT_EQ(next, keys.size());
}

TEST_P(StoreConnections, KnowKeysOf48Bits) {
  const std::vector<int64_t> keys{0, 1, 63, 64, int64_t{1} << 40, (int64_t{1} << 48) - 1};
  connection_->fill(keys, 4, std::vector<float>(kFloats));
  connection_->update(keys, 4,
                      [&](size_t i, std::span<float> value) { value[0] = static_cast<float>(i + 1); });
  connection_->read(keys, 4, [&](size_t i, std::span<const float> value) {
    EXPECT_EQ(value[0], static_cast<float>(i + 1)) << "key " << keys[i];
  });
  const std::vector<int64_t> larger{int64_t{1} << 48};
  EXPECT_EQ(code_of([&] { connection_->fill(larger, 1, std::vector<float>(kFloats)); }), ErrorCode::kInvalid);
}

TEST_P(StoreConnections, NoticeAMissingValue) {
  const std::vector<int64_t> keys = keys_up_to(100);
  for (const size_t missing : {size_t{0}, size_t{50}, size_t{99}}) {
    const auto fresh = connect_store(GetParam(), path_of(server_), kFloats);
    server_.flush();
    std::vector<int64_t> others = keys;
    others.erase(others.begin() + static_cast<ptrdiff_t>(missing));
    fresh->fill(others, 10, std::vector<float>(kFloats));
    const std::unique_ptr<StoreConnection> reader = connect_store(GetParam(), path_of(server_), kFloats),
                                           writer = connect_store(GetParam(), path_of(server_), kFloats);
    EXPECT_EQ(code_of([&] { reader->read(keys, 10, [](auto...) {}); }), ErrorCode::kInternal);
    EXPECT_EQ(code_of([&] { writer->update(keys, 10, [](auto...) {}); }), ErrorCode::kInternal);
  }
}

TEST_P(StoreConnections, NoticeAValueOfAnotherSize) {
  const std::vector<int64_t> keys = keys_up_to(10);
  connect_store(GetParam(), path_of(server_), kFloats / 2)->fill(keys, 10, std::vector<float>(kFloats / 2));
  EXPECT_EQ(code_of([&] { connection_->read(keys, 10, [](auto...) {}); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([&] { connection_->fill(keys, 10, std::vector<float>(1)); }), ErrorCode::kInternal);
}

TEST_P(StoreConnections, NoticeAServerThatStoresNothing) {
  const ServerProcess full = start("2");
  const auto connection = connect_store(GetParam(), path_of(full), kFloats);
  EXPECT_EQ(code_of([&] { connection->fill(keys_up_to(50'000), 1000, std::vector<float>(kFloats)); }),
            ErrorCode::kInternal);
}

TEST_P(StoreConnections, NoticeAServerThatEnds) {
  const std::vector<int64_t> keys = keys_up_to(10);
  connection_->fill(keys, 10, std::vector<float>(kFloats));
  server_.kill();
  EXPECT_EQ(code_of([&] { connection_->read(keys, 10, [](auto...) {}); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([&] { connect_store(GetParam(), path_of(server_), kFloats); }), ErrorCode::kUnavailable);
}

TEST(StoreProtocols, OfAServerThatNobodyKnowsAreAnError) {
  EXPECT_EQ(code_of([] { store_protocols("etcd"); }), ErrorCode::kInternal);
  EXPECT_EQ(code_of([] { connect_store("http", "/nowhere", 1); }), ErrorCode::kInternal);
}

}  // namespace
}  // namespace embers
