#include "actors/transport/connections/peer_address.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace embers {
namespace asio = boost::asio;
namespace {

std::string text(const asio::ip::address_v6& address) {
  if (address.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, address).to_string();
  if (address.is_loopback()) return address.to_string();
  auto bytes = address.to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return asio::ip::address_v6(bytes, address.scope_id()).to_string() + "/64";
}

}  // namespace

std::optional<uid_t> peer_user(Connection::Socket& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  int domain = 0;
  socklen_t domain_size = sizeof domain;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) != 0 ||
      domain != AF_UNIX ||
      ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return std::nullopt;
  return credentials.uid;
}

std::string peer_address(Connection::Socket& socket) {
  if (const auto user = peer_user(socket)) return fmt::format("user {} of this host", *user);
  boost::system::error_code gone;
  const Connection::Socket::endpoint_type peer = socket.remote_endpoint(gone);
  if (gone) return "a peer that is gone";
  if (peer.protocol().family() == AF_INET)
    return asio::ip::address_v4(ntohl(reinterpret_cast<const sockaddr_in*>(peer.data())->sin_addr.s_addr))
        .to_string();
  if (peer.protocol().family() != AF_INET6) return "an unknown address";
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(peer.data());
  asio::ip::address_v6::bytes_type bytes;
  std::copy_n(v6->sin6_addr.s6_addr, bytes.size(), bytes.begin());
  return text(asio::ip::address_v6(bytes, v6->sin6_scope_id));
}

}  // namespace embers
