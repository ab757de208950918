#include "bench/harness/processes.h"

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/errors.h"

namespace embers {
namespace {

namespace fs = std::filesystem;

// The numbers that a folder of /proc lists. Processes may end while it is read.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  std::error_code gone;
  for (fs::directory_iterator at(folder, gone), end; !gone && at != end; at.increment(gone)) {
    const std::string entry = at->path().filename().string();
    if (entry.find_first_not_of("0123456789") == std::string::npos) numbers.push_back(std::stoi(entry));
  }
  return numbers;
}

// 0 if the process has ended. "PID (NAME) STATE PARENT ...", where the name may contain anything.
pid_t parent_of(pid_t process) {
  std::ifstream in(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(in, line);
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string state;
  pid_t parent = 0;
  rest >> state >> parent;
  return parent;
}

double seconds_of(clockid_t clock) {
  timespec now{};
  return ::clock_gettime(clock, &now) == 0
             ? static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)
             : 0;
}

}  // namespace

const char* name(Policy policy) { return policy == Policy::kBatch ? "batch" : "other"; }

std::vector<pid_t> with_descendants(pid_t process) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t p : numbers_in("/proc")) children.emplace(parent_of(p), p);
  std::vector<pid_t> all{process};
  for (size_t i = 0; i < all.size(); ++i) {
    const auto [begin, end] = children.equal_range(all[i]);
    for (auto at = begin; at != end; ++at) all.push_back(at->second);
  }
  return all;
}

void set_policy(const std::vector<pid_t>& processes, Policy policy) {
  const sched_param none{};
  for (const pid_t process : processes)
    for (const pid_t thread : numbers_in(fmt::format("/proc/{}/task", process)))
      if (::sched_setscheduler(thread, policy == Policy::kBatch ? SCHED_BATCH : SCHED_OTHER, &none) != 0 &&
          errno != ESRCH)
        fail(ErrorCode::kInternal, "cannot choose the scheduling policy of thread {}: {}", thread,
             std::strerror(errno));
}

void set_policy_of_this_process(Policy policy) { set_policy({::getpid()}, policy); }

void let_run(const std::vector<pid_t>& processes, bool may_run) {
  for (const pid_t process : processes)
    if (::kill(process, may_run ? SIGCONT : SIGSTOP) != 0 && errno != ESRCH)
      fail(ErrorCode::kInternal, "cannot {} process {}: {}", may_run ? "continue" : "stop", process,
           std::strerror(errno));
}

double cpu_seconds(const std::vector<pid_t>& processes) {
  double sum = 0;
  clockid_t clock;
  for (const pid_t process : processes)
    if (::clock_getcpuclockid(process, &clock) == 0) sum += seconds_of(clock);
  return sum;
}

double cpu_seconds_of_this_process() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }
double cpu_seconds_of_this_thread() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

void add_with_policies(Contest& contest, const std::string& side, const std::string& configuration,
                       const std::function<void(Policy)>& set, const Contest::Try& run) {
  for (const Policy policy : kPolicies)
    contest.add(
        side, configuration.empty() ? name(policy) : fmt::format("{}, {}", configuration, name(policy)), [=] {
          set(policy);
          return run();
        });
}

}  // namespace embers
