#include "actors/transport/local_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace embers {

std::string local_address_towards(const std::string& host, const std::string& port) {
  std::string address = "127.0.0.1";
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;  // connecting a datagram socket sends nothing
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return address;
  const int fd = socket(found->ai_family, SOCK_DGRAM, 0);
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  char text[NI_MAXHOST];
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
      getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) ==
          0)
    address = text;
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  return address;
}

}  // namespace embers
