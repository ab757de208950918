#pragma once

#include <string>
#include <vector>

#include "bench/harness/child.h"

namespace embers {

// Two "hosts" of this machine, joined by a link of 1 Gbit/s and 0.5 ms each way: namespaces, made by a
// process that ends with this one (program.cc). Each has a network, a name, a boot id and a list of host
// names of its own; they share files and users. What runs there must be ended by whoever started it.
class TwoHosts {
 public:
  TwoHosts();

  // Why there are none, where namespaces or TUN devices are forbidden; else "".
  const std::string& forbidden() const { return forbidden_; }
  bool has_ipv6() const { return has_ipv6_; }

  // That of the hosts, which also has what shows the bare network (talk.h).
  static std::string program();

  // The words that run a command on host 0 or 1.
  std::vector<std::string> on(int host, const std::vector<std::string>& command) const;

  static std::string name(int host) { return host == 0 ? "host-a" : "host-b"; }
  static std::string ipv4(int host) { return host == 0 ? "10.77.0.1" : "10.77.0.2"; }
  static std::string ipv6(int host) { return host == 0 ? "fd77::1" : "fd77::2"; }
  static std::string ipv6_name(int host) { return name(host) + ".v6"; }

  // What the link does to packets, in both directions.
  void set_rate(double bits_per_second);
  void set_delay(double seconds);
  void set_loss(double share);
  void set_up() { tell("up"); }
  void stall() { tell("stall"); }  // packets wait
  void cut() { tell("cut"); }      // packets are lost
  // The network card of a host: without it, the host has no route to the other.
  void plug(int host) { tell("plug " + std::to_string(host)); }
  void unplug(int host) { tell("unplug " + std::to_string(host)); }
  uint64_t packets();
  // Of the process that is the link, so far; the kernel's work for what arrives is part of it.
  double cpu_seconds() const { return program_.cpu_seconds(); }

 private:
  void tell(const std::string& line);

  BenchChild program_;
  std::string forbidden_, user_, task_[2];
  bool has_ipv6_ = false;
};

}  // namespace embers
