#pragma once

#include <netinet/tcp.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/servers.h"

namespace embers::testing_support {

// Stands before a memcached or Redis server and stops the traffic at a place in a shard's write-backs, until
// it is told to go on. So a test can kill a process at a known place, without relying on timing.
class ServerProxy {
 public:
  enum class Stop {
    kWriter,           // the connection of the writes, after the first value of the write-back
    kAll,              // all connections, before it
    kAllButGreetings,  // the same, but a new connection gets its first answer
  };

  // Stops when shard `writer` writes values of this version of a table, or a later one: once.
  ServerProxy(const ServerProcess& server, Stop stop, uint32_t writer, uint64_t version)
      : server_(server.port()), stop_(stop), writer_(writer), version_(version) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no proxy");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ServerProxy() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
      shutdown(listener_, SHUT_RDWR);
      changed_.notify_all();
    }
    acceptor_.join();
    for (std::thread& pump : pumps_) pump.join();
    for (const int fd : open_) close(fd);
    close(listener_);
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  bool wait_until_stopped(std::chrono::seconds most = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return state_ == State::kStopped; });
  }
  // What the stopped writer had sent is lost, as with its process.
  void go_on() {
    const std::lock_guard lock(mutex_);
    state_ = State::kOver;
    changed_.notify_all();
  }

 private:
  enum class State { kWaiting, kStopped, kOver };

  void accept_all() {
    for (int client; (client = accept(listener_, nullptr, nullptr)) >= 0;) {
      const int server = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in to = loopback(server_);
      if (connect(server, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
        shutdown(client, SHUT_RDWR);
      const int now = 1;
      for (const int fd : {client, server}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
      const std::lock_guard lock(mutex_);
      open_.insert(open_.end(), {client, server});
      if (over_) return;
      pumps_.emplace_back([this, client, server] { pump(client, server, true); });
      pumps_.emplace_back([this, client, server] { pump(server, client, false); });
    }
  }

  void pump(int from, int to, bool up) {
    std::string tail;  // of what was seen, in case a value's head is cut in two
    bool greets = stop_ == Stop::kAllButGreetings;
    std::vector<char> chunk(1 << 16);
    for (ssize_t n; (n = recv(from, chunk.data(), chunk.size(), 0)) > 0;) {
      const std::string_view bytes(chunk.data(), static_cast<size_t>(n));
      if (!pass(bytes, to, up, tail, std::exchange(greets, false))) break;
    }
    shutdown(from, SHUT_RDWR);
    shutdown(to, SHUT_RDWR);
  }

  // Sends the bytes on, stopping where it must; false when the connection is to end.
  bool pass(std::string_view bytes, int to, bool up, std::string& tail, bool greets) {
    size_t first = std::string::npos;
    if (up) first = find_value(bytes, tail);
    bool mine = false;
    {
      std::unique_lock lock(mutex_);
      if (first != std::string::npos && state_ == State::kWaiting) {
        mine = true;
        if (stop_ != Stop::kWriter) stop_here();
      }
      if (stop_ != Stop::kWriter && !greets)
        changed_.wait(lock, [&] { return over_ || state_ != State::kStopped; });
      if (over_) return false;
    }
    if (!mine || stop_ != Stop::kWriter) return send_all(to, bytes);
    send_all(to, bytes.substr(0, first));
    std::unique_lock lock(mutex_);
    stop_here();
    changed_.wait(lock, [&] { return over_ || state_ == State::kOver; });
    return false;
  }

  void stop_here() {
    state_ = State::kStopped;
    changed_.notify_all();
  }

  static bool send_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Where in `bytes` to stop: behind the head of a value (see storage/external/stored_value.h) of the writer
  // and version that was waited for; kWriter: of the second such one.
  size_t find_value(std::string_view bytes, std::string& tail) const {
    const std::string window = tail + std::string(bytes);
    const size_t head = 4 + 4 + 8 + 8;
    size_t found = std::string::npos;
    int seen = 0;
    size_t at = 0;
    while ((at = window.find("EmbR", at)) != std::string::npos && at + head <= window.size()) {
      uint32_t writer = 0;
      uint64_t version = 0;
      std::memcpy(&writer, &window[at + 4], sizeof writer);
      std::memcpy(&version, &window[at + 16], sizeof version);
      const bool is_it = writer == writer_ && version >= version_;
      at += head;
      if (is_it && ++seen == (stop_ == Stop::kWriter ? 2 : 1)) {
        found = at > tail.size() ? at - tail.size() : 0;
        break;
      }
    }
    tail = window.substr(window.size() - std::min(window.size(), head - 1));
    return found;
  }

  const uint16_t server_;
  const Stop stop_;
  const uint32_t writer_;
  const uint64_t version_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kWaiting;  // guarded by mutex_, as all below
  bool over_ = false;
  std::vector<int> open_;
  std::vector<std::thread> pumps_;
  std::thread acceptor_;
};

}  // namespace embers::testing_support
