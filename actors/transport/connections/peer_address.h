#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "actors/transport/connections/connection.h"

namespace embers {

// Whose connection it is, for messages and for counting: an IPv4 address, the first 64 bits of an IPv6
// address (what one host is given), or the user at the other end of a Unix socket. Never a port.
std::string peer_address(Connection::Socket& socket);

// The user at the other end of a Unix socket: who connected, or who listens. Nothing for other sockets.
std::optional<uid_t> peer_user(Connection::Socket& socket);

}  // namespace embers
