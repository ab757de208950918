#include "base/cpus.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/errors.h"

namespace embers {
namespace {

// Room for as many CPUs as a kernel can be built for; one cpu_set_t has 1024.
using CpuMask = std::array<cpu_set_t, 8>;
constexpr int kMostCpus = CPU_SETSIZE * 8;

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// The list as text, with consecutive CPUs as a range: "0-3,8".
std::string list_of(const std::vector<int>& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

std::vector<int> allowed_cpus() {
  CpuMask mask{};
  if (::sched_getaffinity(0, sizeof mask, mask.data()) != 0)
    fail(ErrorCode::kInternal, "cannot find out which CPUs this process may use: {}", std::strerror(errno));
  std::vector<int> cpus;
  for (int cpu = 0; cpu < kMostCpus; ++cpu)
    if (CPU_ISSET_S(cpu, sizeof mask, mask.data())) cpus.push_back(cpu);
  return cpus;
}

std::vector<int> parse_cpus(const std::string& list, const std::vector<int>& allowed) {
  std::vector<int> cpus;
  for (std::string_view rest = list;;) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == part.npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *first > *last)
      fail(ErrorCode::kInvalid,
           "'{}' in the CPU list '{}' is neither a CPU nor a range of CPUs; write a list such as 0,2-3", part,
           list);
    for (int cpu = *first;; ++cpu) {
      if (!std::binary_search(allowed.begin(), allowed.end(), cpu))
        fail(ErrorCode::kInvalid,
             "CPU {} of '{}' does not exist, or this process may not run on it; it may run on {}", cpu, list,
             list_of(allowed));
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end())
        fail(ErrorCode::kInvalid, "CPU {} is named twice in '{}'", cpu, list);
      cpus.push_back(cpu);
      if (cpu == *last) break;
    }
    if (part.size() == rest.size()) return cpus;
    rest.remove_prefix(part.size() + 1);
  }
}

void bind_thread(int cpu) {
  CpuMask mask{};
  if (cpu >= 0 && cpu < kMostCpus) CPU_SET_S(cpu, sizeof mask, mask.data());
  if (::sched_setaffinity(0, sizeof mask, mask.data()) != 0)
    fail(ErrorCode::kInvalid, "a thread cannot be bound to CPU {}: {}", cpu, std::strerror(errno));
}

}  // namespace embers
