#include "actors/door/refusal_log.h"

#include <fmt/format.h>

namespace embers {
namespace {

constexpr size_t kLongest = 300;
constexpr char kOthers[] = "other peers";

}  // namespace

std::string printable(const std::string& text, size_t most) {
  std::string line = text.substr(0, most);
  for (char& c : line)
    if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f) c = '?';
  return line + (text.size() > most ? "..." : "");
}

std::optional<std::string> RefusalLog::add(const std::string& peer, const std::string& reason,
                                           const std::string& what, Clock::time_point now) {
  std::string who = peer;
  if (said_.size() >= kMost && !said_.contains({peer, reason})) {
    std::erase_if(said_, [&](const auto& entry) { return now - entry.second.at >= kQuiet; });
    if (said_.size() >= kMost) who = kOthers;
  }
  const auto [place, first] = said_.try_emplace({who, reason}, Said{now});
  Said& said = place->second;
  if (!first && now - said.at < kQuiet) {
    ++said.since;
    return std::nullopt;
  }
  const std::string times =
      said.since > 0 ? fmt::format(" ({} more times since this was last said)", said.since) : "";
  said = {now};
  return fmt::format("refused {}: {}{}", printable(who, kLongest), printable(what, kLongest), times);
}

}  // namespace embers
