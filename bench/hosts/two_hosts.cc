#include "bench/hosts/two_hosts.h"

#include <fmt/format.h>

#include <unistd.h>

#include <sstream>

#include "apps/process/program.h"
#include "base/errors.h"

namespace embers {

// Programs of embers are in one folder, and tests in one below it.
std::string TwoHosts::program() {
  const std::string beside = program_beside("embers-two-hosts");
  return ::access(beside.c_str(), X_OK) == 0 ? beside : program_beside("../embers-two-hosts");
}

TwoHosts::TwoHosts() : program_({program()}) {
  std::istringstream words(program_.ready());
  words >> user_;
  if (user_ == "none") {
    std::getline(words >> std::ws, forbidden_);
    return;
  }
  words >> task_[0] >> task_[1] >> has_ipv6_;
}

std::vector<std::string> TwoHosts::on(int host, const std::vector<std::string>& command) const {
  const std::string spaces = task_[host] + "/ns/";
  std::vector<std::string> words{"/usr/bin/nsenter"};
  if (user_ != "-") words.insert(words.end(), {"--user=" + user_, "--preserve-credentials"});
  for (const char* kind : {"mnt", "net", "uts"})
    words.push_back(fmt::format("--{}={}{}", kind == std::string("mnt") ? "mount" : kind, spaces, kind));
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

void TwoHosts::set_rate(double bits_per_second) { tell(fmt::format("rate {}", bits_per_second)); }
void TwoHosts::set_delay(double seconds) { tell(fmt::format("delay {}", seconds)); }
void TwoHosts::set_loss(double share) { tell(fmt::format("loss {}", share)); }

uint64_t TwoHosts::packets() { return std::stoull(program_.ask("packets")); }

void TwoHosts::tell(const std::string& line) {
  if (const std::string answer = program_.ask(line); answer != "ok")
    fail(ErrorCode::kInternal, "two hosts: {}: {}", line, answer);
}

}  // namespace embers
