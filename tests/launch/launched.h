#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace embers::testing_support {

// Whether a process of this number runs; one that only waits to be buried does not.
inline bool runs(pid_t pid) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/stat");  // "" if it has just ended
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

// Every process that has this word among those of its command line or in its environment, but this one.
inline std::vector<pid_t> processes_about(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(folder.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    for (const char* const file : {"cmdline", "environ"})
      if (read_file(folder.path() / file).find(word) != std::string::npos && runs(pid)) {
        found.push_back(pid);
        break;
      }
  }
  return found;
}

// The processes that it has started, and theirs.
inline std::vector<pid_t> descendants(pid_t of) {
  std::vector<pid_t> found;
  for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(folder.path().filename().c_str());
    if (pid <= 0 || !runs(pid)) continue;
    const std::string stat = read_file(folder.path() / "stat");
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos || std::atoi(stat.c_str() + name_end + 4) != of) continue;
    found.push_back(pid);
    for (const pid_t below : descendants(pid)) found.push_back(below);
  }
  return found;
}

// The number that a process has written to the file, once it is there.
inline pid_t pid_in(const std::string& path) {
  wait_until([&] { return read_file(path).find('\n') != std::string::npos; }, 20);
  return std::atoi(read_file(path).c_str());
}

}  // namespace embers::testing_support
