#include "apps/launch/processes/remote_member.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/launch/processes/process_groups.h"
#include "apps/process/program.h"
#include "base/errors.h"

namespace embers::launch {
namespace {

constexpr int kLookAgain = 50;            // milliseconds
constexpr size_t kLongestLine = 8 << 10;  // a secret has at most 4 KiB
constexpr char kName[] = "member";

// Lines that arrive on standard input.
class Lines {
 public:
  // The next one, waiting for at most so many milliseconds; -1: without end.
  std::optional<std::string> next(int wait) {
    pollfd state{STDIN_FILENO, POLLIN, 0};
    if (text_.find('\n') == text_.npos && !ended_ && ::poll(&state, 1, wait) > 0) read();
    const size_t end = text_.find('\n');
    if (end == text_.npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }
  bool ended() const { return ended_; }

 private:
  void read() {
    char part[4096];
    const ssize_t n = ::read(STDIN_FILENO, part, sizeof part);
    if (n > 0) text_.append(part, static_cast<size_t>(n));
    ended_ = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) || text_.size() > kLongestLine;
  }
  std::string text_;
  bool ended_ = false;
};

// A file in memory that only processes of this user can open, as long as this one lives: nothing is left on a
// disk, however it ends.
std::string hidden_file(const std::string& text) {
  const int file = ::memfd_create("embers-secret", MFD_CLOEXEC);
  if (file < 0 || ::fchmod(file, 0600) != 0 ||
      ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(ErrorCode::kInternal, "cannot keep the job's secret in memory: {}", std::strerror(errno));
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file);
}

}  // namespace

int run_remote_member(const MemberOptions& options) {
  Lines lines;
  ProcessGroups::Child child;
  if (options.command.empty()) fail(ErrorCode::kInvalid, "there is no command after --");
  child.words = options.command;
  for (const std::string& entry : options.environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(ErrorCode::kInvalid, "'{}' is not NAME=VALUE", entry);
    child.environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  if (options.secret) {
    std::optional<std::string> secret;
    while (!secret && !lines.ended()) secret = lines.next(-1);
    if (!secret) fail(ErrorCode::kInvalid, "standard input ended before the job's secret");
    child.environment["EMBERS_SECRET_FILE"] = hidden_file(*secret + "\n");
  }
  std::error_code none;
  if (!options.directory.empty()) std::filesystem::current_path(options.directory, none);
  if (none)
    spdlog::warn("there is no directory '{}' on this host: starting in '{}'", options.directory,
                 std::filesystem::current_path().string());
  ProcessGroups groups(program_beside("embers"));
  groups.start(kName, child);
  while (!lines.ended()) {
    for (std::optional<std::string> line = lines.next(kLookAgain); line; line = lines.next(0))
      if (*line + "\n" == kAskToEnd) groups.signal(kName, SIGTERM);
    for (const auto& [name, ending] : groups.ended()) return ending.status;
  }
  return 128 + SIGHUP;  // whoever started it has gone
}

}  // namespace embers::launch
