#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace embers::testing_support {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// A port of the loopback interface that is free at the moment.
inline uint16_t free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

inline bool is_listening(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

// Of a Unix socket.
inline sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// A memcached or Redis server of a test's own, on a port of the loopback interface or on a Unix socket;
// killed at the end.
class ServerProcess {
 public:
  static ServerProcess memcached(std::vector<std::string> words = {"-M"}) {
    return ServerProcess(false, false, std::move(words));
  }
  static ServerProcess redis(std::vector<std::string> words = {}) {
    return ServerProcess(true, false, std::move(words));
  }
  static ServerProcess memcached_at_unix_socket(std::vector<std::string> words = {"-M"}) {
    return ServerProcess(false, true, std::move(words));
  }
  static ServerProcess redis_at_unix_socket(std::vector<std::string> words = {}) {
    return ServerProcess(true, true, std::move(words));
  }

  std::string address() const {
    return unix_socket_ ? "unix:" + socket_path() : "127.0.0.1:" + std::to_string(port_);
  }
  uint16_t port() const { return port_; }
  void kill() const {
    process_->signal(SIGKILL);
    process_->wait();
  }
  // Neither answers nor refuses anything from now on.
  void stop() const { process_->stop(); }
  // Forgets all that it was given.
  void flush() const {
    const int fd = connected();
    const std::string command = redis_ ? "FLUSHALL\r\n" : "flush_all\r\n";
    char answer[16];
    const bool done = ::write(fd, command.data(), command.size()) == static_cast<ssize_t>(command.size()) &&
                      ::read(fd, answer, sizeof answer) > 0;
    ::close(fd);
    if (!done) throw std::runtime_error("the server was not flushed");
  }
  // Another server, empty, at the same address.
  void restart() {
    kill();
    start();
  }

 private:
  ServerProcess(bool redis, bool unix_socket, std::vector<std::string> words)
      : redis_(redis), unix_socket_(unix_socket), words_(std::move(words)) {
    // Another process may take the port before the server does.
    for (int attempt = 0; attempt < 10; ++attempt) {
      port_ = free_port();
      if (start()) return;
    }
    throw std::runtime_error("no server came up: " + process_->output());
  }

  std::string socket_path() const { return *dir_ / "socket"; }

  // A connection to it, or -1.
  int connected() const {
    const int fd = socket(unix_socket_ ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    const sockaddr_in port = loopback(port_);
    const sockaddr_un path = unix_address(socket_path());
    const int error = unix_socket_ ? connect(fd, reinterpret_cast<const sockaddr*>(&path), sizeof path)
                                   : connect(fd, reinterpret_cast<const sockaddr*>(&port), sizeof port);
    if (error == 0) return fd;
    close(fd);
    return -1;
  }
  bool is_up() const {
    const int fd = connected();
    if (fd >= 0) close(fd);
    return fd >= 0;
  }

  bool start() {
    const std::string port = std::to_string(port_);
    std::vector<std::string> command{"/usr/bin/memcached"}, tcp{"-l", "127.0.0.1", "-p", port, "-U", "0"},
        path{"-s", socket_path()};
    if (redis_) {
      command = {"/usr/bin/redis-server", "--save", "", "--dir", dir_->path().string()};
      tcp = {"--bind", "127.0.0.1", "--port", port};
      path = {"--port", "0", "--unixsocket", socket_path()};
    } else if (geteuid() == 0) {
      command.insert(command.end(), {"-u", "root"});
    }
    const auto& place = unix_socket_ ? path : tcp;
    command.insert(command.end(), place.begin(), place.end());
    command.insert(command.end(), words_.begin(), words_.end());
    process_ = std::make_unique<Process>(command, *dir_ / "log");
    return wait_until([&] { return is_up() || process_->wait(0) != -1; }) && process_->wait(0) == -1;
  }

  bool redis_, unix_socket_;
  std::vector<std::string> words_;
  std::unique_ptr<TempDir> dir_ = std::make_unique<TempDir>();
  uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace embers::testing_support
