#include "apps/launch/log_follower.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace embers::launch {
namespace {

constexpr size_t kPart = 64 << 10;         // bytes of a log at a time
constexpr size_t kLongestLine = 16 << 10;  // longer ones are shown in parts

uint64_t size_of(const std::string& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : size;
}

std::string read_part(const std::string& path, uint64_t from) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  std::string part(kPart, '\0');
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

void LogFollower::read(const std::string& label, Log& log) {
  while (size_of(log.path) > log.read) {
    const std::string part = read_part(log.path, log.read);
    if (part.empty()) return;
    log.read += part.size();
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
  for (auto& [label, log] : logs_) read(label, log);
}

void LogFollower::finish(const std::string& label) {
  const auto log = logs_.find(label);
  if (log == logs_.end()) return;
  read(label, log->second);
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
