#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
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

// A memcached or Redis server of a test's own, on a port of the loopback interface; killed at the end.
class ServerProcess {
 public:
  static ServerProcess memcached(std::vector<std::string> words = {"-M"}) {
    return ServerProcess(false, std::move(words));
  }
  static ServerProcess redis(std::vector<std::string> words = {}) {
    return ServerProcess(true, std::move(words));
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  uint16_t port() const { return port_; }
  void kill() const {
    process_->signal(SIGKILL);
    process_->wait();
  }
  // Neither answers nor refuses anything from now on.
  void stop() const { process_->stop(); }
  // Forgets all that it was given.
  void flush() const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(port_);
    const std::string command = redis_ ? "FLUSHALL\r\n" : "flush_all\r\n";
    char answer[16];
    const bool done = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                      ::write(fd, command.data(), command.size()) == static_cast<ssize_t>(command.size()) &&
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
  ServerProcess(bool redis, std::vector<std::string> words) : redis_(redis), words_(std::move(words)) {
    // Another process may take the port before the server does.
    for (int attempt = 0; attempt < 10; ++attempt) {
      port_ = free_port();
      if (start()) return;
    }
    throw std::runtime_error("no server came up: " + process_->output());
  }

  bool start() {
    const std::string port = std::to_string(port_);
    std::vector<std::string> command{"/usr/bin/memcached", "-l", "127.0.0.1", "-p", port, "-U", "0"};
    if (redis_)
      command = {"/usr/bin/redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir",
                 dir_->path().string()};
    else if (geteuid() == 0)
      command.insert(command.end(), {"-u", "root"});
    command.insert(command.end(), words_.begin(), words_.end());
    process_ = std::make_unique<Process>(command, *dir_ / "log");
    return wait_until([&] { return is_listening(port_) || process_->wait(0) != -1; }) &&
           process_->wait(0) == -1;
  }

  bool redis_;
  std::vector<std::string> words_;
  std::unique_ptr<TempDir> dir_ = std::make_unique<TempDir>();
  uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace embers::testing_support
