#include "apps/launch/processes/process_groups.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/env.hpp>
#include <boost/process/environment.hpp>
#include <boost/process/extend.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "apps/launch/processes/guard.h"
#include "apps/process/child.h"
#include "base/errors.h"
#include "base/random_number.h"

namespace embers::launch {
namespace {

// An open file that is not for other children.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// O_NONBLOCK: a named pipe in its place must not hold the launcher up. For files it means nothing.
Descriptor open_file(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0600));
  if (file.get() < 0) fail(file_error_code(errno), "cannot open '{}': {}", path, std::strerror(errno));
  return file;
}

Ending ending_of(int status) {
  if (WIFEXITED(status)) return {WEXITSTATUS(status), fmt::format("status {}", WEXITSTATUS(status))};
  const int number = WTERMSIG(status);
  return {128 + number, fmt::format("signal {} ({})", number, ::strsignal(number))};
}

// Whether it has ended. It stays a zombie, so that nobody else gets its number.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

}  // namespace

struct ProcessGroups::Impl {
  struct Group {
    boost::process::child leader;
    Descriptor line;  // to its standard input
  };

  Impl(const std::string& path, const std::string& job)
      : embers(path), slurm_job(job), mark(fmt::format("{:016x}", random_number())) {}

  void look_after_guard() {
    if (guard && guard->lives()) return;
    if (guard) spdlog::warn("the guard process of this launcher was ended; another one takes its place");
    guard.emplace(embers, mark, slurm_job);
    for (const auto& [name, group] : groups) guard->add(group.leader.id());
  }

  // What became of a leader that has ended, after the rest of its group.
  Ending bury(Group& group) {
    const pid_t pid = group.leader.id();
    ::kill(-pid, SIGKILL);
    if (guard) guard->remove(pid);
    std::error_code gone;
    group.leader.wait(gone);
    return ending_of(group.leader.native_exit_code());
  }

  const std::string embers, slurm_job, mark;
  std::optional<Guard> guard;           // since the first child
  std::map<std::string, Group> groups;  // by name
};

ProcessGroups::ProcessGroups(const std::string& embers, const std::string& slurm_job)
    : impl_(std::make_unique<Impl>(embers, slurm_job)) {}

ProcessGroups::~ProcessGroups() {
  for (auto& [name, group] : impl_->groups) ::kill(-group.leader.id(), SIGKILL);
  for (auto& [name, group] : impl_->groups) impl_->bury(group);
}

void ProcessGroups::start(const std::string& name, const Child& child) {
  impl_->look_after_guard();
  Descriptor in, log, output;
  Impl::Group group;
  if (child.line) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      fail(ErrorCode::kInternal, "cannot make a pipe: {}", std::strerror(errno));
    in = Descriptor(ends[0]);
    group.line = Descriptor(ends[1]);
    ::fcntl(group.line.get(), F_SETFL, O_NONBLOCK);
  } else {
    in = open_file("/dev/null", O_RDONLY);
  }
  if (!child.log.empty()) log = open_file(child.log, O_WRONLY | O_APPEND | O_CREAT);
  if (!child.output.empty()) output = open_file(child.output, O_WRONLY | O_TRUNC | O_CREAT);
  boost::process::environment environment = boost::this_process::environment();
  // Not by operator[], which reads past the end of variables that are shorter than the name.
  for (const auto& [key, value] : child.environment) environment.set(key, value);
  environment.set(Guard::kMark, impl_->mark);
  // env would take a path with '=' for a variable; it is only for names.
  const bool is_path = child.words.at(0).find('/') != std::string::npos;
  const std::string program = is_path ? child.words[0] : kFindInPath;
  const Words arguments(child.words.begin() + (is_path ? 1 : 0), child.words.end());
  const auto set_up = ends_with_this_process([&, guard = &*impl_->guard] {
    ::setsid();
    guard->add_this_process();
    ::dup2(in.get(), STDIN_FILENO);
    if (log.get() >= 0) ::dup2(log.get(), STDERR_FILENO);
    if (log.get() >= 0 || output.get() >= 0)
      ::dup2(output.get() >= 0 ? output.get() : log.get(), STDOUT_FILENO);
    std::signal(SIGPIPE, SIG_DFL);  // this process ignores it; other programs may rely on it
  });
  // Of a program that cannot be run, Boost.Process leaves the process behind, and the guard knows its number.
  // It calls this only if it is given an error code, too.
  auto bury_it = boost::process::extend::on_error = [guard = &*impl_->guard](auto& executor, const auto&) {
    if (executor.pid <= 0) return;
    guard->remove(executor.pid);
    ::waitpid(executor.pid, nullptr, 0);
  };
  std::error_code error;
  group.leader =
      boost::process::child(program, boost::process::args(arguments), environment, set_up, error, bury_it);
  if (error) fail(ErrorCode::kInvalid, "cannot start '{}': {}", child.words[0], error.message());
  impl_->groups.insert_or_assign(name, std::move(group));
}

std::vector<std::pair<std::string, Ending>> ProcessGroups::ended() {
  std::vector<std::pair<std::string, Ending>> ended;
  if (!impl_->groups.empty()) impl_->look_after_guard();
  for (auto it = impl_->groups.begin(); it != impl_->groups.end();) {
    if (!has_ended(it->second.leader.id())) {
      ++it;
      continue;
    }
    ended.emplace_back(it->first, impl_->bury(it->second));
    it = impl_->groups.erase(it);
  }
  return ended;
}

const std::string& ProcessGroups::mark() const { return impl_->mark; }

std::map<std::string, pid_t> ProcessGroups::leaders() const {
  std::map<std::string, pid_t> leaders;
  for (const auto& [name, group] : impl_->groups) leaders[name] = group.leader.id();
  return leaders;
}

void ProcessGroups::signal(const std::string& name, int number) {
  const auto group = impl_->groups.find(name);
  if (group != impl_->groups.end()) ::kill(group->second.leader.id(), number);
}

void ProcessGroups::say(const std::string& name, const std::string& text) {
  const auto group = impl_->groups.find(name);
  if (group == impl_->groups.end()) return;
  // Whoever does not read is not waited for.
  [[maybe_unused]] const ssize_t n = ::write(group->second.line.get(), text.data(), text.size());
}

}  // namespace embers::launch
