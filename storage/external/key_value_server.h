#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace embers::storage {

// One server that holds byte strings by name, as an external store needs it. Every failure to reach it is
// kUnavailable naming host, port and reason; after that, nothing is known of the writes since the last
// barrier. *Thread safety*: none.
class KeyValueServer {
 public:
  virtual ~KeyValueServer() = default;

  // "host:port" or "unix:/path".
  virtual const std::string& address() const = 0;
  // Bytes of the longest value it takes under a name of kLongestName bytes.
  virtual uint64_t longest_value() = 0;

  // Multi-get in two halves, so that several servers work at once. The names stay valid in between. They are
  // no more than sockets hold: a server that waits until its answers are read takes no more of a request. As
  // many as most_requests() may be under way, and are answered in turn.
  virtual void request(std::span<const std::string_view> names) = 0;
  virtual size_t most_requests() const { return 1; }
  // Calls visit(i, value) for each i-th name that is there, in order.
  using Visit = std::function<void(size_t i, std::string_view value)>;
  virtual void receive(const Visit& visit) = 0;

  // Both are collected, and sent at the next barrier at the latest. add changes nothing if the name exists.
  virtual void set(std::string_view name, std::string_view value) = 0;
  virtual void add(std::string_view name, std::string_view value) = 0;
  // Sends what was collected, without waiting for the outcome.
  virtual void flush() = 0;

  // What the server reports after carrying out every set and add so far.
  struct Health {
    std::string mark;        // value under the name that was asked for, "" when there is none
    uint64_t evictions = 0;  // items that it dropped for want of memory, since its start
    std::string
        refused_writes;  // its answer to the first write that it refused since the last barrier, or ""
  };
  virtual Health barrier(std::string_view mark) = 0;

  // After a failure: starts over, without what was under way.
  virtual void reconnect() = 0;

  static constexpr size_t kLongestName = 250;  // memcached's limit
};

// The servers of a job, and which of them holds a name: consistent hashing, so that all processes with the
// same list agree.
struct KeyValueServers {
  std::vector<std::unique_ptr<KeyValueServer>> all;
  std::function<size_t(std::string_view name)> server_of;  // its index in `all`
};

// How long a server may take before it counts as unreachable: for a connection and its first answer, and for
// each later answer.
struct ServerTimeouts {
  std::chrono::milliseconds connect{2000}, answer{5000};
};
// The timeouts of a job that must end this many seconds after a server stopped (storage.server_timeout): half
// of that for each answer, since the owner that is asked what happened may have to wait as long as the worker
// that noticed.
ServerTimeouts server_timeouts(double seconds);

// What all servers of a job ask their clients for: memcached by SASL, Redis by AUTH. Without a password,
// nothing is sent; without a user, Redis takes the password for that of its default user. Never part of a
// message for people.
struct ServerLogin {
  std::string user, password;
};

// Connects to memcached servers ("host:port" or "unix:/path" each), spread as libmemcached's ketama does.
// kUnreachable with address and reason for one that cannot be reached, is not memcached, or refuses the
// login; kInvalid for something that is not an address.
KeyValueServers connect_memcached(const std::vector<std::string>& addresses,
                                  const ServerTimeouts& timeouts = {}, const ServerLogin& login = {});

// The same for Redis servers, spread by rendezvous hashing.
KeyValueServers connect_redis(const std::vector<std::string>& addresses, const ServerTimeouts& timeouts = {},
                              const ServerLogin& login = {});

// One of the two by the name of a backend, "memcached" or "redis"; kInvalid naming any other.
KeyValueServers connect_servers(const std::string& backend, const std::vector<std::string>& addresses,
                                const ServerTimeouts& timeouts = {}, const ServerLogin& login = {});

// The parts of "host:port" or "unix:/path". kInvalid naming the string if it is of neither form, or if the
// path is too long for a socket.
struct ServerAddress {
  std::string host;   // or the path of a Unix socket
  uint16_t port = 0;  // 0: a Unix socket

  bool unix_socket() const { return port == 0; }
};
ServerAddress parse_server(const std::string& text);

// Bytes of the longest path that a Unix socket can have on Linux.
inline constexpr size_t kLongestSocketPath = 107;

}  // namespace embers::storage
