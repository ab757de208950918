#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace embers {

// What a server says in the log about those that it refuses: who, and why, when that happens for the first
// time. What a peer repeats is counted, and said again after kQuiet, with the count; so nobody fills the log.
//
// *Thread safety*: none.
class RefusalLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kQuiet = std::chrono::minutes(10);
  static constexpr size_t kMost = 1000;  // peers and reasons that are told apart within kQuiet

  // The line to log, or nothing. `peer` is its address without the port. `reason` tells refusals apart, and
  // `what`, which may quote the peer, is said.
  std::optional<std::string> add(const std::string& peer, const std::string& reason, const std::string& what,
                                 Clock::time_point now);

 private:
  struct Said {
    Clock::time_point at;
    uint64_t since = 0;  // refusals since then
  };
  std::map<std::pair<std::string, std::string>, Said> said_;
};

// The text in one line without control characters, cut off after `most` bytes.
std::string printable(const std::string& text, size_t most);

}  // namespace embers
