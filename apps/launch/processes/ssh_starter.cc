#include "apps/launch/processes/ssh_starter.h"

#include "apps/launch/members/quoted.h"
#include "apps/launch/processes/remote_member.h"

namespace embers::launch {
namespace {

// No questions, which nobody would answer; and a connection whose other end has gone ends.
const Words kOptions{"-T",
                     "-o",
                     "BatchMode=yes",
                     "-o",
                     "ConnectTimeout=20",
                     "-o",
                     "ServerAliveInterval=10",
                     "-o",
                     "ServerAliveCountMax=6"};

}  // namespace

const std::string& SshStarter::host(const Member& member) const {
  const uint32_t turn =
      member.kind == Kind::kShard ? member.number : options_.shards + member.number + member.restart;
  return options_.hosts[turn % options_.hosts.size()];
}

ProcessGroups::Child SshStarter::child(const Order& order) const {
  ProcessGroups::Child child = HostStarter::child(order);
  if (order.member.kind == Kind::kMaster) return child;
  child.environment.clear();
  child.line = true;
  Words there{options_.program, "member"};
  if (!options_.directory.empty()) there.insert(there.end(), {"--dir", options_.directory});
  if (!options_.secret.empty()) there.push_back("--secret");
  for (const auto& [name, value] : order.environment) there.push_back(name + "=" + value);
  there.push_back("--");
  there.insert(there.end(), order.words.begin(), order.words.end());
  child.words = options_.ssh;
  child.words.insert(child.words.end(), kOptions.begin(), kOptions.end());
  child.words.push_back(host(order.member));
  child.words.push_back(quoted(there));
  return child;
}

void SshStarter::on_started(const Order& order) {
  if (order.member.kind != Kind::kMaster && !options_.secret.empty())
    groups().say(order.member.label(), options_.secret + "\n");
}

void SshStarter::ask_to_end(const Member& member) {
  if (member.kind == Kind::kMaster) return HostStarter::ask_to_end(member);
  groups().say(member.label(), kAskToEnd);
}

}  // namespace embers::launch
