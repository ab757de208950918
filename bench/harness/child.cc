#include "bench/harness/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <utility>

#include "base/errors.h"

namespace embers {
namespace {

struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::kInternal, "no pipe: {}", std::strerror(errno));
  }
  int ends[2];
};

constexpr char kReady[] = "ready ";

}  // namespace

BenchChild::BenchChild(const std::vector<std::string>& words) : name_(words.at(0)) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const Pipe in, out;
  const int parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail(ErrorCode::kInternal, "no process for {}: {}", name_, std::strerror(errno));
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(in.ends[0], 0);
    ::dup2(out.ends[1], 1);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(in.ends[0]);
  ::close(out.ends[1]);
  to_ = ::fdopen(in.ends[1], "w");
  from_ = ::fdopen(out.ends[0], "r");
  std::string line = read_line();
  while (!line.starts_with(kReady)) line = read_line();  // libraries may have something to say before
  ready_ = line.substr(std::strlen(kReady));
}

BenchChild BenchChild::part(std::vector<std::string> words) {
  words.insert(words.begin(), {"/proc/self/exe", "part"});
  return BenchChild(words);
}

BenchChild::BenchChild(BenchChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      name_(std::move(other.name_)),
      to_(std::exchange(other.to_, nullptr)),
      from_(std::exchange(other.from_, nullptr)),
      ready_(std::move(other.ready_)) {}

BenchChild::~BenchChild() {
  if (to_ != nullptr) std::fclose(to_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  if (from_ != nullptr) std::fclose(from_);
}

void BenchChild::tell(const std::string& line) {
  std::fputs((line + '\n').c_str(), to_);
  std::fflush(to_);
}

std::string BenchChild::answer() { return read_line(); }

std::string BenchChild::read_line() {
  std::string line;
  for (int c = std::fgetc(from_); c != '\n'; c = std::fgetc(from_)) {
    if (c == EOF) fail(ErrorCode::kInternal, "a process of the benchmark ended early: {}", name_);
    line.push_back(static_cast<char>(c));
  }
  return line;
}

double BenchChild::cpu_seconds() const {
  clockid_t clock;
  timespec now{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void answer_lines(const std::string& ready, const std::function<std::string(const std::string&)>& answer) {
  std::cout << kReady << ready << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
}

}  // namespace embers
