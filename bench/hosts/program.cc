// embers-hosts [N]: N hosts (2) in namespaces of this machine, around a switch (local_hosts.h starts it, and
// tells it what to do). It prints what they are, then answers each line with a line:
//
//   rate BITS_PER_SECOND (of each card) | delay SECONDS (each way) | loss SHARE
//   up | stall | cut            the switch
//   plug N | unplug N           the network card of host N, which then has no route
//   packets                     how many the switch has been given
//
// It ends with its standard input, and the hosts with it. For tests of the network, `receive HOST PORT
// [until-input-ends]` and `send HOST PORT BYTES` talk over it (talk.h).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/hosts/host.h"
#include "bench/hosts/network.h"
#include "bench/hosts/talk.h"

namespace embers {
namespace {

struct Machine {
  explicit Machine(int count) : own_user(become_root()) {
    std::vector<int> devices;
    for (int n = 0; n < count; ++n) devices.push_back(hosts.emplace_back(n, count).device());
    network.emplace(devices);
  }

  const bool own_user;
  std::deque<Host> hosts;
  std::optional<Network> network;
  NetworkSettings settings;
};

std::string obey(Machine& machine, const std::string& line) {
  using State = NetworkSettings::State;
  static const std::map<std::string, State> states{
      {"up", State::kUp}, {"stall", State::kStalled}, {"cut", State::kCut}};
  std::istringstream words(line);
  std::string verb;
  double value = 0;
  words >> verb >> value;
  if (verb == "packets") return std::to_string(machine.network->packets());
  if (verb == "plug" || verb == "unplug") {
    machine.hosts.at(static_cast<size_t>(value)).set_up(verb == "plug");
    return "ok";
  }
  if (verb == "rate")
    machine.settings.bits_per_second = value;
  else if (verb == "delay")
    machine.settings.delay = std::chrono::duration<double>(value);
  else if (verb == "loss")
    machine.settings.loss = value;
  else if (const auto state = states.find(verb); state != states.end())
    machine.settings.state = state->second;
  else
    return "there is no '" + verb + "'";
  machine.network->set(machine.settings);
  return "ok";
}

int serve(int count) {
  std::unique_ptr<Machine> machine;
  try {
    machine = std::make_unique<Machine>(count);
  } catch (const std::exception& e) {
    std::cout << "ready none " << e.what() << std::endl;
    return 0;
  }
  std::cout << "ready " << (machine->own_user ? fmt::format("/proc/{}/ns/user", ::getpid()) : "-");
  bool has_ipv6 = true;
  for (const Host& host : machine->hosts) has_ipv6 = has_ipv6 && host.has_ipv6();
  std::cout << ' ' << has_ipv6;
  for (const Host& host : machine->hosts) std::cout << ' ' << host.task();
  std::cout << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << obey(*machine, line) << std::endl;
  std::_Exit(0);  // threads of hosts and network never end
}

}  // namespace
}  // namespace embers

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 3 && words[0] == "receive")
    return embers::receive(words[1], words[2], words.size() > 3);
  if (words.size() == 4 && words[0] == "send") return embers::send(words[1], words[2], std::stoull(words[3]));
  return embers::serve(std::clamp(words.empty() ? 2 : std::stoi(words[0]), 1, embers::Host::kMost));
}
