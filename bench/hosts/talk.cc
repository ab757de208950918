#include "bench/hosts/talk.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

namespace embers {
namespace {

constexpr size_t kPart = 1 << 18;

int fails(const char* what) {
  std::cout << what << ": " << std::strerror(errno) << std::endl;
  return 1;
}

// A socket that `use` (bind or connect) has taken to the address; -1 with errno.
template <class Use>
int open_at(const std::string& host, const std::string& port, Use use) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return errno = EADDRNOTAVAIL, -1;
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool good = use(socket, found->ai_addr, found->ai_addrlen) == 0;
  ::freeaddrinfo(found);
  return good ? socket : -1;
}

}  // namespace

int receive(const std::string& host, const std::string& port, bool until_input_ends) {
  const int listening = open_at(host, port, ::bind);
  if (listening < 0 || ::listen(listening, 8) != 0) return fails("cannot listen");
  std::cout << "ready listening" << std::endl;
  if (until_input_ends)
    std::thread([] {
      for (char c; std::cin.get(c);) continue;
      std::_Exit(0);
    }).detach();
  std::vector<char> buffer(kPart);
  for (;;) {
    const int peer = ::accept(listening, nullptr, nullptr);
    size_t bytes = 0;
    for (ssize_t n; (n = ::read(peer, buffer.data(), buffer.size())) > 0;) bytes += static_cast<size_t>(n);
    const std::string answer = std::to_string(bytes);
    if (::write(peer, answer.data(), answer.size()) < 0) fails("cannot answer");
    ::close(peer);
  }
}

int send(const std::string& host, const std::string& port, size_t bytes) {
  const auto begin = std::chrono::steady_clock::now();
  const int peer = open_at(host, port, ::connect);
  if (peer < 0) return fails("cannot connect");
  const std::vector<char> buffer(std::min(bytes, kPart));
  for (size_t left = bytes; left > 0;) {
    const ssize_t n = ::write(peer, buffer.data(), std::min(left, buffer.size()));
    if (n < 0) return fails("cannot send");
    left -= static_cast<size_t>(n);
  }
  ::shutdown(peer, SHUT_WR);
  std::string answer;
  char part[32];
  for (ssize_t n; (n = ::read(peer, part, sizeof part)) > 0;) answer.append(part, static_cast<size_t>(n));
  if (answer != std::to_string(bytes)) return fails("another number of bytes has come");
  std::cout << "ready " << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()
            << std::endl;
  return 0;
}

}  // namespace embers
