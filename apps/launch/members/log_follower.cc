#include "apps/launch/members/log_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/quantities.h"

namespace embers::launch {
namespace {

constexpr uint64_t kPart = 64 << 10;       // bytes of a log at a time
constexpr uint64_t kLeastPart = 4 << 10;   // however many logs there are
constexpr uint64_t kOfAll = 512 << 10;     // of all logs in a poll: showing them takes a moment
constexpr size_t kLongestLine = 16 << 10;  // longer ones are shown in parts

uint64_t size_of(const std::string& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : size;
}

std::string read_part(const std::string& path, uint64_t from, uint64_t most = kPart) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  std::string part(most, '\0');
  file.read(part.data(), static_cast<std::streamsize>(part.size()));
  part.resize(static_cast<size_t>(file.gcount()));
  return part;
}

// What a terminal would show of it: bars are drawn over and over after '\r'.
std::string visible(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  const size_t drawn_over = line.rfind('\r');
  return drawn_over == std::string::npos ? line : line.substr(drawn_over + 1);
}

}  // namespace

void LogFollower::follow(const std::string& label, const std::string& path) {
  if (logs_.contains(label)) finish(label);
  const uint64_t size = size_of(path);
  logs_[label] = {path, size, size, ""};
}

// What is far behind: nobody could read all of it.
void LogFollower::skip(const std::string& label, Log& log, uint64_t size) {
  uint64_t from = size - kPart;
  if (const size_t end = read_part(log.path, from).find('\n'); end != std::string::npos) from += end + 1;
  show_(label, fmt::format("... {} are left out here; all of it is in {}",
                           short_bytes(static_cast<double>(from - log.read)), log.path));
  log.read = from;
  log.line.clear();
}

void LogFollower::read(const std::string& label, Log& log, uint64_t most) {
  const uint64_t size = size_of(log.path);
  if (size < log.read) log.begin = log.read = 0;  // somebody has emptied it
  if (size - log.read > kFarBehind) skip(label, log, size);
  while (log.read < size && most > 0) {
    const std::string part = read_part(log.path, log.read, std::min({size - log.read, most, kPart}));
    if (part.empty()) return;
    log.read += part.size();
    most -= part.size();
    for (const char c : part) {
      if (c != '\n' && log.line.size() < kLongestLine) {
        log.line += c;
        continue;
      }
      show_(label, visible(std::exchange(log.line, c == '\n' ? "" : std::string(1, c))));
    }
  }
}

void LogFollower::poll() {
  const uint64_t most = std::clamp<uint64_t>(kOfAll / std::max<size_t>(logs_.size(), 1), kLeastPart, kPart);
  for (auto& [label, log] : logs_) read(label, log, most);
}

void LogFollower::finish(const std::string& label) {
  const auto log = logs_.find(label);
  if (log == logs_.end()) return;
  read(label, log->second, kFarBehind);
  if (!log->second.line.empty()) show_(label, visible(std::exchange(log->second.line, "")));
}

std::vector<std::string> LogFollower::last_lines(const std::string& label, size_t most) const {
  const auto log = logs_.find(label);
  if (log == logs_.end()) return {};
  const uint64_t size = size_of(log->second.path);
  const uint64_t from = std::max(log->second.begin, size > kPart ? size - kPart : 0);
  std::istringstream text(read_part(log->second.path, from));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(visible(line));
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  return lines;
}

}  // namespace embers::launch
