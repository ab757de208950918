#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "storage/external/key_value_server.h"

namespace embers::storage {

ServerAddress parse_server(const std::string& text) {
  constexpr std::string_view kUnix = "unix:";
  if (text.starts_with(kUnix)) {
    const std::string path = text.substr(kUnix.size());
    if (!path.starts_with('/'))
      fail(ErrorCode::kInvalid, "'{}' is not the address of a server: write \"unix:/path\", from the root",
           text);
    if (path.size() > kLongestSocketPath)
      fail(ErrorCode::kInvalid,
           "'{}' is not the address of a server: the path of a socket has at most {} bytes", text,
           kLongestSocketPath);
    return {path, 0};
  }
  const size_t colon = text.rfind(':');
  ServerAddress address{text.substr(0, colon), 0};
  if (std::string& host = address.host; host.size() > 1 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);  // IPv6
  const char* const end = text.data() + text.size();
  if (colon != std::string::npos && colon > 0) {
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error == std::errc() && stop == end && address.port != 0) return address;
  }
  fail(ErrorCode::kInvalid, "'{}' is not the address of a server: write \"host:port\" or \"unix:/path\"",
       text);
}

ServerTimeouts server_timeouts(double seconds) {
  constexpr double kLeast = 0.001, kMost = 86'400;  // 0 would mean no limit
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(std::clamp(seconds / 2, kLeast, kMost)));
  return {std::min(ServerTimeouts{}.connect, time), time};
}

KeyValueServers connect_servers(const std::string& backend, const std::vector<std::string>& addresses,
                                const ServerTimeouts& timeouts, const ServerLogin& login) {
  const bool memcached = backend == "memcached";
  if (!memcached && backend != "redis")
    fail(ErrorCode::kInvalid, "unknown storage.backend '{}'; known: memory, memcached, redis", backend);
  if (addresses.empty()) fail(ErrorCode::kInvalid, "storage.backend '{}' needs servers", backend);
  return memcached ? connect_memcached(addresses, timeouts, login)
                   : connect_redis(addresses, timeouts, login);
}

}  // namespace embers::storage
