#pragma once

#include <string>
#include <vector>

#include "bench/harness/child.h"
#include "bench/hosts/host.h"

namespace embers {

// "Hosts" of this machine: namespaces, made by a process that ends with this one (program.cc). Each has a
// network, a name, a boot id and a list of host names of its own; they share files and users. Each has a
// network card of 1 Gbit/s, and a switch joins them, 0.5 ms each way. What runs there must be ended by
// whoever started it.
class LocalHosts {
 public:
  explicit LocalHosts(int hosts = 2);

  // Why there are none, where namespaces or TUN devices are forbidden; else "".
  const std::string& forbidden() const { return forbidden_; }
  bool has_ipv6() const { return has_ipv6_; }

  // That of the hosts, which also has what shows the bare network (talk.h).
  static std::string program();

  // The words that run a command on a host, from 0 on.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;

  static std::string name(int host) { return Host::name(host); }
  static std::string ipv4(int host) { return Host::ipv4(host); }
  static std::string ipv6(int host) { return Host::ipv6(host); }
  static std::string ipv6_name(int host) { return name(host) + ".v6"; }

  // What the network does to packets.
  void set_rate(double bits_per_second);  // of each card, each way
  void set_delay(double seconds);         // from host to host
  void set_loss(double share);
  void set_up() { tell("up"); }
  void stall() { tell("stall"); }  // packets wait
  void cut() { tell("cut"); }      // packets are lost
  // The network card of a host: without it, the host has no route to others.
  void plug(int host) { tell("plug " + std::to_string(host)); }
  void unplug(int host) { tell("unplug " + std::to_string(host)); }
  uint64_t packets();
  // Of the process that is the switch, so far; the kernel's work for what arrives is part of it.
  double cpu_seconds() const { return program_.cpu_seconds(); }

 private:
  void tell(const std::string& line);

  BenchChild program_;
  std::string forbidden_, user_;
  std::vector<std::string> tasks_;
  bool has_ipv6_ = false;
};

}  // namespace embers
