#include "actors/transport/endpoint.h"

#include <charconv>

#include "base/errors.h"

namespace embers {

std::string Endpoint::text() const {
  if (unix_socket) return "unix:" + host;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
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
  const std::string port = text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number > 65535)
    fail(ErrorCode::kInvalid, "address '{}': '{}' is not a port (0 to 65535)", text, port);
  return {false, host, port};
}

}  // namespace embers
