#include "apps/launch/processes/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/process/args.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "apps/launch/slurm/commands/steps.h"
#include "apps/process/child.h"
#include "base/errors.h"

namespace embers::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMoment = std::chrono::seconds(1);  // for marked processes to end by themselves
constexpr auto kLookAgain = std::chrono::milliseconds(10);

// Processes whose environment has this entry. Those of other users are not seen.
std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  std::string wanted(1, '\0');
  wanted.append(entry).push_back('\0');
  std::error_code gone;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", gone)) {
    const pid_t pid = std::atoi(folder.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    std::ifstream file(folder.path() / "environ", std::ios::binary);
    std::string entries(1, '\0');
    // Not by iterators of the buffer: these throw when the process has ended since it was opened.
    for (char part[4096]; file.read(part, sizeof part) || file.gcount() > 0;)
      entries.append(part, static_cast<size_t>(file.gcount()));
    if (entries.find(wanted) != std::string::npos) found.push_back(pid);
  }
  return found;
}

void end_marked(const std::string& mark) {
  const std::string entry = std::string(Guard::kMark) + "=" + mark;
  const auto begin = Clock::now();
  std::optional<Clock::time_point> killed;
  // A process that is turning into another program has no environment for a moment, so one look is not
  // enough.
  for (int looks_without_any = 0; looks_without_any < 2;) {
    const auto left = processes_with(entry);
    const auto now = Clock::now();
    if (killed && now - *killed > 2 * kMoment) return;  // who is still there then waits for a disk
    looks_without_any = left.empty() ? looks_without_any + 1 : 0;
    if (now - begin > kMoment && !left.empty()) {
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
      if (!killed) killed = now;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace

Guard::Guard(const std::string& embers, const std::string& mark, const std::string& slurm_job) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    fail(ErrorCode::kInternal, "cannot make a pipe: {}", std::strerror(errno));
  line_ = ends[1];
  ::fcntl(line_, F_SETFL, O_NONBLOCK);  // nobody waits for a guard that was stopped
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> in(::fdopen(ends[0], "r"), &std::fclose);
  std::vector<std::string> words{"guard", mark};
  if (!slurm_job.empty()) words.insert(words.end(), {"--slurm-job", slurm_job});
  try {
    process_ = boost::process::child(
        embers, boost::process::args(words),
        (boost::process::std_out & boost::process::std_err) > boost::process::null,
        boost::process::std_in < in.get(), boost::process::extend::on_exec_setup = [](auto&) {
          inherit_only_standard_streams();
          ::setsid();  // what ends this process at a terminal leaves its guard to its work
        });
  } catch (const boost::process::process_error& e) {
    ::close(line_);
    fail(ErrorCode::kInternal, "cannot start {}: {}", embers, e.code().message());
  }
}

Guard::~Guard() {
  ::close(line_);
  ::kill(process_.id(), SIGCONT);  // somebody may have stopped it
  std::error_code gone;
  process_.wait(gone);
}

bool Guard::lives() {
  std::error_code gone;
  return process_.running(gone);
}

void Guard::write(char sign, pid_t group) const {
  char text[32];
  const auto end = fmt::format_to(text, "{}{}\n", sign, group);
  // A guard that has gone will be told again by the next one.
  [[maybe_unused]] const ssize_t n = ::write(line_, text, static_cast<size_t>(end - text));
}

void Guard::add(pid_t group) const { write('+', group); }
void Guard::remove(pid_t group) const { write('-', group); }
void Guard::add_this_process() const { write('+', ::getpid()); }

int run_guard(const std::string& mark, const std::string& slurm_job) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signal, SIG_IGN);
  std::set<pid_t> groups;
  char sign = 0;
  for (int group = 0; std::scanf(" %c%d", &sign, &group) == 2;)
    sign == '+' ? void(groups.insert(group)) : void(groups.erase(group));
  for (const pid_t group : groups)
    if (group > 1) ::kill(-group, SIGKILL);  // never -1, which is everybody
  const auto cancel = [&](const auto& what) {
    if (slurm_job.empty() || groups.empty()) return;
    try {
      what();
    } catch (const Error&) {  // nobody hears a guard; steps that are left end with the allocation
    }
  };
  cancel([&] { cancel_steps(slurm_job, groups); });
  cancel([&] { cancel_further_jobs(slurm_job, mark); });
  end_marked(mark);
  return 0;
}

}  // namespace embers::launch
