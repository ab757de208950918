// embers-two-hosts: two hosts in namespaces of this machine, joined by a link (two_hosts.h starts it, and
// tells it what to do). It prints what they are, then answers each line with a line:
//
//   rate BITS_PER_SECOND | delay SECONDS (each way) | loss SHARE
//   up | stall | cut            the link
//   plug N | unplug N           the network card of host N, which then has no route
//   packets                     how many the link has been given
//
// It ends with its standard input, and the hosts with it. For tests of the link, `receive HOST PORT
// [until-input-ends]` and `send HOST PORT BYTES` talk over it (talk.h).
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/hosts/host.h"
#include "bench/hosts/link.h"
#include "bench/hosts/talk.h"

namespace embers {
namespace {

struct Machine {
  const bool own_user = become_root();
  std::array<Host, 2> hosts{Host(0), Host(1)};
  Link link{hosts[0].device(), hosts[1].device()};
  LinkSettings settings;
};

std::string obey(Machine& machine, const std::string& line) {
  using State = LinkSettings::State;
  static const std::map<std::string, State> states{
      {"up", State::kUp}, {"stall", State::kStalled}, {"cut", State::kCut}};
  std::istringstream words(line);
  std::string verb;
  double value = 0;
  words >> verb >> value;
  if (verb == "packets") return std::to_string(machine.link.packets());
  if (verb == "plug" || verb == "unplug") {
    machine.hosts.at(value == 0 ? 0 : 1).set_up(verb == "plug");
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
  machine.link.set(machine.settings);
  return "ok";
}

int serve() {
  std::unique_ptr<Machine> machine;
  try {
    machine = std::make_unique<Machine>();
  } catch (const std::exception& e) {
    std::cout << "ready none " << e.what() << std::endl;
    return 0;
  }
  std::cout << "ready " << (machine->own_user ? fmt::format("/proc/{}/ns/user", ::getpid()) : "-") << ' '
            << machine->hosts[0].task() << ' ' << machine->hosts[1].task() << ' '
            << machine->hosts[0].has_ipv6() << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << obey(*machine, line) << std::endl;
  std::_Exit(0);  // threads of hosts and link never end
}

}  // namespace
}  // namespace embers

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 3 && words[0] == "receive")
    return embers::receive(words[1], words[2], words.size() > 3);
  if (words.size() == 4 && words[0] == "send") return embers::send(words[1], words[2], std::stoull(words[3]));
  return embers::serve();
}
