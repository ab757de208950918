#include "actors/transport/addresses/local_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace embers {

// The first address of a name may be of a protocol that this host does not have.
std::string local_address_towards(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;  // connecting a datagram socket sends nothing
  std::string address;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  for (const addrinfo* to = found; to != nullptr && address.empty(); to = to->ai_next) {
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage mine{};
    socklen_t size = sizeof mine;
    char text[NI_MAXHOST];
    if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0)
      address = text;
    if (fd >= 0) close(fd);
  }
  if (found != nullptr) freeaddrinfo(found);
  return address.empty() ? "127.0.0.1" : address;
}

}  // namespace embers
