#pragma once

#include <string>

namespace embers {

// Where a process listens: "HOST:PORT", "[IPv6]:PORT", "unix:/path", or "unix:@name" (see unix_address.h).
struct Endpoint {
  bool unix_socket = false;
  std::string host;  // or the socket's path or @name
  std::string port;

  std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Whether only processes of this host reach it: a Unix socket, or an address of the loopback. A name other
// than "localhost" is not looked up, and counts as an address beyond this host.
bool is_on_this_host(const Endpoint& endpoint);

// Whether it stands for every address of this host: 0.0.0.0 or [::].
bool is_wildcard(const Endpoint& endpoint);

// kInvalid naming what is wrong with the text. Port 0 stands for any free port when listening.
Endpoint parse_endpoint(const std::string& text);

}  // namespace embers
