#include "apps/launch/processes/host_starter.h"

#include <csignal>

namespace embers::launch {

ProcessGroups::Child HostStarter::child(const Order& order) const {
  ProcessGroups::Child child;
  child.words = order.words;
  child.environment = order.environment;
  child.log = order.log;
  child.output = order.output;
  return child;
}

Words HostStarter::words(const Order& order) const { return child(order).words; }

void HostStarter::start(const Order& order) {
  const std::string label = order.member.label();
  groups_.start(label, child(order));
  members_[label] = order.member;
  on_started(order);
}

std::vector<Ended> HostStarter::ended() {
  std::vector<Ended> ended;
  for (const auto& [label, ending] : groups_.ended()) {
    ended.push_back({members_.at(label), ending});
    members_.erase(label);
  }
  return ended;
}

void HostStarter::end_lost(const Member& member) { groups_.signal(member.label(), SIGKILL); }

void HostStarter::ask_to_end(const Member& member) { groups_.signal(member.label(), SIGTERM); }

}  // namespace embers::launch
