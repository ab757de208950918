#include "bench/harness/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/cpus.h"

namespace embers {
namespace {

// What follows the first `name` at the beginning of a line, without blanks, ':', '=' and quotes around it.
std::string field(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    line.erase(0, std::min(line.find_first_not_of(" \t:=\"", name.size()), line.size()));
    line.erase(line.find_last_not_of(" \t\"") + 1);
    return line;
  }
  return "";
}

int64_t system_bytes(int name) { return std::max<int64_t>(0, sysconf(name)); }

// Bytes of the first CPU's cache of this level, which other CPUs may share. The C library, which knows no
// better elsewhere, tells of the last caches of the whole socket on some processors.
int64_t cache_bytes(int level, int name) {
  for (int i = 0;; ++i) {
    const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const std::string kib = field((cache + "/size").c_str(), "");
    if (kib.empty()) return system_bytes(name);
    if (field((cache + "/level").c_str(), "") == std::to_string(level)) return int64_t{std::stoi(kib)} << 10;
  }
}

double load() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : 0;
}

std::string kernel() {
  utsname names;
  return uname(&names) == 0 ? std::string(names.sysname) + " " + names.release : "";
}

// A number of kibibytes, in bytes.
uint64_t kib_field(const char* file, const std::string& name) {
  const std::string text = field(file, name);
  return text.empty() ? 0 : std::stoull(text) << 10;
}

}  // namespace

nlohmann::json machine() {
  const std::string model = field("/proc/cpuinfo", "model name");
  return {{"cpu", model.empty() ? field("/proc/cpuinfo", "CPU part") : model},
          {"cores", allowed_cpus().size()},
          {"l2_bytes", cache_bytes(2, _SC_LEVEL2_CACHE_SIZE)},
          {"l3_bytes", cache_bytes(3, _SC_LEVEL3_CACHE_SIZE)},
          {"memory_bytes", system_bytes(_SC_PHYS_PAGES) * system_bytes(_SC_PAGE_SIZE)},
          {"huge_pages", field("/sys/kernel/mm/transparent_hugepage/enabled", "")},
          {"kernel", kernel()},
          {"system", field("/etc/os-release", "PRETTY_NAME")},
          {"compiler", __VERSION__},
          {"load", load()}};
}

uint64_t available_memory() { return kib_field("/proc/meminfo", "MemAvailable"); }
uint64_t resident_memory() { return kib_field("/proc/self/status", "VmRSS"); }

}  // namespace embers
