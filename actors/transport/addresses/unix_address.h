#pragma once

#include <utility>

#include <boost/asio.hpp>

#include "actors/transport/addresses/endpoint.h"

namespace embers {

// "unix:@name" is Linux's abstract socket of that name, as systemd and ss write it (see unix(7)): no file,
// gone with the process that listens there, however it ends.
inline bool is_abstract(const Endpoint& endpoint) {
  return endpoint.unix_socket && endpoint.host.starts_with('@');
}

inline boost::asio::local::stream_protocol::endpoint unix_address(const Endpoint& endpoint) {
  std::string path = endpoint.host;
  if (is_abstract(endpoint)) path[0] = '\0';
  return {path};
}

}  // namespace embers
