#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace embers {

// What a user who talks to a server without embers would write: the raw side of `embers bench backends`.
class RawClient {
 public:
  virtual ~RawClient() = default;
  // values[i]: a copy of the value under names[i], in one multi-get; all of them are there.
  virtual void get(std::span<const std::string> names, std::span<std::string> values) = 0;
  // Sets all, pipelined, and waits until the server has stored them.
  virtual void set(const std::vector<std::string>& names, const std::vector<std::string>& values) = 0;
};

// `host` may be the path of a Unix socket, which begins with a slash. Logs in if there is a password.
std::unique_ptr<RawClient> raw_memcached(const std::string& host, uint16_t port, const std::string& user = "",
                                         const std::string& password = "");
std::unique_ptr<RawClient> raw_redis(const std::string& host, uint16_t port, const std::string& user = "",
                                     const std::string& password = "");

}  // namespace embers
