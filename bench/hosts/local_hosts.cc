#include "bench/hosts/local_hosts.h"

#include <fmt/format.h>

#include <unistd.h>

#include <sstream>

#include "apps/process/program.h"
#include "base/errors.h"

namespace embers {

// Programs of embers are in one folder, and tests in one below it.
std::string LocalHosts::program() {
  const std::string beside = program_beside("embers-hosts");
  return ::access(beside.c_str(), X_OK) == 0 ? beside : program_beside("../embers-hosts");
}

LocalHosts::LocalHosts(int hosts) : program_({program(), std::to_string(hosts)}) {
  std::istringstream words(program_.ready());
  words >> user_;
  if (user_ == "none") {
    std::getline(words >> std::ws, forbidden_);
    return;
  }
  words >> has_ipv6_;
  for (std::string task; words >> task;) tasks_.push_back(task);
}

std::vector<std::string> LocalHosts::on(int host, const std::vector<std::string>& command) const {
  const std::string spaces = tasks_.at(static_cast<size_t>(host)) + "/ns/";
  std::vector<std::string> words{"/usr/bin/nsenter"};
  if (user_ != "-") words.insert(words.end(), {"--user=" + user_, "--preserve-credentials"});
  for (const char* kind : {"mnt", "net", "uts"})
    words.push_back(fmt::format("--{}={}{}", kind == std::string("mnt") ? "mount" : kind, spaces, kind));
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

void LocalHosts::set_rate(double bits_per_second) { tell(fmt::format("rate {}", bits_per_second)); }
void LocalHosts::set_delay(double seconds) { tell(fmt::format("delay {}", seconds)); }
void LocalHosts::set_loss(double share) { tell(fmt::format("loss {}", share)); }

uint64_t LocalHosts::packets() { return std::stoull(program_.ask("packets")); }

void LocalHosts::tell(const std::string& line) {
  if (const std::string answer = program_.ask(line); answer != "ok")
    fail(ErrorCode::kInternal, "hosts of this machine: {}: {}", line, answer);
}

}  // namespace embers
