#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/transport/addresses/endpoint.h"

namespace embers {

// Ports that a process may listen on, both included; 0 to 0: any free one.
struct PortRange {
  uint16_t first = 0, last = 0;

  bool any() const { return first == 0; }
  std::string text() const;  // "7701-7720"
};

// "A-B", or "A" alone; "" for any port. kInvalid naming what is wrong with the text.
PortRange parse_port_range(const std::string& text);

// What --advertise says: the host by which others reach a process, and the port where that is another one
// than it listens on.
struct Advertise {
  std::string host;  // "": nothing was said
  std::string port;
};

// "HOST", "HOST:PORT", "[IPv6]" or "[IPv6]:PORT"; "" for nothing. kInvalid naming what is wrong with the
// text.
Advertise parse_advertise(const std::string& text);

// Where others find a process that listens at these endpoints. A host that was given stands for that of every
// TCP endpoint; a port, too, of which there must be one then. Without one, an endpoint that stands for every
// address of this host (0.0.0.0, [::]) becomes those that others can reach: the one that leads to `towards`,
// if that is another host, else those of this host's networks, the one with the way out first. Unix sockets
// get their whole path. kInvalid where nothing is there to be advertised.
std::vector<Endpoint> advertised(const std::vector<Endpoint>& listening, const Advertise& given,
                                 const std::vector<Endpoint>& towards = {});

}  // namespace embers
