#pragma once

#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/external/external_store.h"
#include "tests/support/servers.h"

namespace embers::storage {

// One kind of external store, over servers of the test's own.
struct ExternalKind {
  std::string name;  // of the backend
  testing_support::ServerProcess (*start)(std::vector<std::string> words);
  std::vector<std::string> words;
  KeyValueServers connect(const std::vector<std::string>& addresses,
                          const ServerTimeouts& timeouts = {}) const {
    return connect_servers(name, addresses, timeouts);
  }
  friend std::ostream& operator<<(std::ostream& out, const ExternalKind& kind) {
    return out << kind.name << kind.where;
  }
  const char* where = "";
};

inline const ExternalKind kMemcached{"memcached", testing_support::ServerProcess::memcached, {"-M"}};
inline const ExternalKind kRedis{"redis", testing_support::ServerProcess::redis, {}};
inline const ExternalKind kMemcachedAtUnixSocket{
    "memcached", testing_support::ServerProcess::memcached_at_unix_socket, {"-M"}, " at a Unix socket"};
inline const ExternalKind kRedisAtUnixSocket{
    "redis", testing_support::ServerProcess::redis_at_unix_socket, {}, " at a Unix socket"};

inline std::vector<testing_support::ServerProcess> start_servers(const ExternalKind& kind, int n) {
  std::signal(SIGPIPE, SIG_IGN);  // as embers does: hiredis writes to Unix sockets whose server is gone
  std::vector<testing_support::ServerProcess> servers;
  for (int i = 0; i < n; ++i) servers.push_back(kind.start(kind.words));
  return servers;
}

inline std::vector<std::string> addresses_of(const std::vector<testing_support::ServerProcess>& servers) {
  std::vector<std::string> addresses;
  for (const auto& server : servers) addresses.push_back(server.address());
  return addresses;
}

inline std::unique_ptr<ExternalStore> open_store(const ExternalKind& kind,
                                                 const std::vector<testing_support::ServerProcess>& servers,
                                                 const ExternalOptions& options) {
  return make_external_store(kind.connect(addresses_of(servers)), options);
}

// One server, for each kind of test.
class External : public testing::TestWithParam<ExternalKind> {
 protected:
  std::unique_ptr<ExternalStore> open(const ExternalOptions& options = {"job", 1, 0, ""}) const {
    return open_store(GetParam(), servers_, options);
  }
  static std::vector<float> gather(Store& store, const Keys& keys, size_t dim = 1) {
    std::vector<float> rows(keys.size() * dim, -1);
    std::vector<uint8_t> found(keys.size());
    store.gather(0, keys, rows, found);
    return rows;
  }
  static void add_one(std::span<float> row, std::span<float> slots, std::span<const float> grad) {
    row[0] += grad[0];
    if (!slots.empty()) slots[0] += 1;
  }
  static std::vector<float> scan(Store& store) {
    std::vector<float> all;
    store.scan(0, 0, 1000,
               [&](KeysView, std::span<const float> values) { all.assign(values.begin(), values.end()); });
    return all;
  }

  std::vector<testing_support::ServerProcess> servers_ = start_servers(GetParam(), 1);
};

// An empty store: servers that all its tests share, under a job name of its own.
inline std::unique_ptr<Store> shared_store(const ExternalKind& kind, int n) {
  static std::map<std::pair<std::string, int>, std::vector<testing_support::ServerProcess>> started;
  auto& servers = started[{kind.name + kind.where, n}];
  if (servers.empty()) servers = start_servers(kind, n);
  static std::atomic<int> number = 0;
  return open_store(kind, servers, {"contract " + std::to_string(++number), 7, 0, ""});
}

}  // namespace embers::storage
