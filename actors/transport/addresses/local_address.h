#pragma once

#include <string>

namespace embers {

// The local address from which `host` is reached; "127.0.0.1" when it cannot be determined.
std::string local_address_towards(const std::string& host, const std::string& port);

}  // namespace embers
