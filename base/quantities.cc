#include "base/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace embers {
namespace {

constexpr char kNone[] = "-";

bool exists(double x) { return std::isfinite(x) && x >= 0; }

// Three significant digits of a number below 1000, as it is shown: 9.996 is "10.0", not "10.00".
std::string three_digits(double x) { return fmt::format("{:.{}f}", x, x < 9.995 ? 2 : x < 99.95 ? 1 : 0); }

}  // namespace

std::string short_count(double n) {
  if (!exists(n)) return kNone;
  if (n < 9999.5) return fmt::format("{:.0f}", n);
  for (const char unit : {'k', 'M', 'G', 'T', 'P'}) {
    n /= 1000;
    if (n < 999.5) return three_digits(n) + unit;
  }
  return fmt::format("{:.0f}P", n);
}

std::string short_bytes(double n) {
  if (!exists(n)) return kNone;
  if (n < 1023.5) return fmt::format("{:.0f} B", n);
  for (const char* unit : {"KiB", "MiB", "GiB", "TiB"}) {
    n /= 1024;
    if (n < 1023.5) return fmt::format("{} {}", three_digits(n), unit);
  }
  return fmt::format("{:.0f} PiB", n / 1024);
}

std::string short_duration(double seconds) {
  if (!exists(seconds)) return kNone;
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  constexpr double kMost = 1e9 * 86400;
  const auto whole = static_cast<uint64_t>(std::llround(std::min(seconds, kMost)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  const uint64_t minutes = whole / 60;
  if (minutes < 24 * 60) return fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
  const uint64_t hours = minutes / 60;
  return fmt::format("{}d{:02}h", hours / 24, hours % 24);
}

std::string decimal(double x, int digits) {
  return std::isfinite(x) ? fmt::format("{:.{}f}", x, digits) : kNone;
}

std::string percent(double share) {
  if (!exists(share)) return kNone;
  return fmt::format("{:.0f}%", std::floor(100 * std::min(share, 1.0) + 1e-9));
}

}  // namespace embers
