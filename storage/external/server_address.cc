#include <charconv>

#include "base/errors.h"
#include "storage/external/key_value_server.h"

namespace embers::storage {

ServerAddress parse_server(const std::string& text) {
  const size_t colon = text.rfind(':');
  ServerAddress address{text.substr(0, colon), 0};
  const char* const end = text.data() + text.size();
  if (colon != std::string::npos && colon > 0) {
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error == std::errc() && stop == end && address.port != 0) return address;
  }
  fail(ErrorCode::kInvalid, "'{}' is no address of a server: write \"host:port\"", text);
}

}  // namespace embers::storage
