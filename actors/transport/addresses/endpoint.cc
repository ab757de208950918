#include "actors/transport/addresses/endpoint.h"

#include <charconv>

#include <utility>  // Boost 1.74's Asio forgets it

#include <boost/asio/ip/address.hpp>

#include "base/errors.h"

namespace embers {
namespace ip = boost::asio::ip;

std::string Endpoint::text() const {
  if (unix_socket) return "unix:" + host;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

bool is_on_this_host(const Endpoint& endpoint) {
  if (endpoint.unix_socket || endpoint.host == "localhost") return true;
  boost::system::error_code no_number;
  const ip::address address = ip::make_address(endpoint.host, no_number);
  if (no_number) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return ip::make_address_v4(ip::v4_mapped, address.to_v6()).is_loopback();
  return address.is_loopback();
}

bool is_wildcard(const Endpoint& endpoint) {
  if (endpoint.unix_socket) return false;
  boost::system::error_code no_number;
  const ip::address address = ip::make_address(endpoint.host, no_number);
  return !no_number && address.is_unspecified();
}

Endpoint parse_endpoint(const std::string& text) {
  if (text.starts_with("unix:")) {
    const std::string path = text.substr(5);
    if (path.empty() || path.size() > 100)
      fail(ErrorCode::kInvalid, "address '{}': the path of a socket must have 1 to 100 characters", text);
    return {true, path, ""};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    fail(ErrorCode::kInvalid, "address '{}': give HOST:PORT or unix:/path", text);
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("[]") != std::string::npos)
    fail(ErrorCode::kInvalid, "address '{}': give HOST:PORT, [IPv6]:PORT or unix:/path", text);
  const std::string port = text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number > 65535)
    fail(ErrorCode::kInvalid, "address '{}': '{}' is not a port (0 to 65535)", text, port);
  return {false, host, port};
}

}  // namespace embers
