#include "bench/models/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "apps/process/program.h"
#include "apps/process/runtime.h"
#include "base/errors.h"

namespace embers {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// The program embers with these arguments; what it says goes to a file. Killed at the end if it still runs.
class Child {
 public:
  Child(std::vector<std::string> arguments, const std::string& log) {
    arguments.insert(arguments.begin(), program_beside("embers"));
    std::vector<char*> argv;
    for (std::string& word : arguments) argv.push_back(word.data());
    argv.push_back(nullptr);
    const int parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail(ErrorCode::kInternal, "no process for embers: {}", std::strerror(errno));
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    const int out = ::open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Its exit status, or 128 + signal.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  int pid_ = -1;
};

}  // namespace

nlohmann::json run_as_processes(const std::string& job_file, const std::string& dir) {
  const std::string address = fmt::format("unix:@embers-bench-{}-{:016x}", ::getpid(), random_number());
  const std::string report = dir + "/report.json", log = dir + "/master.log";
  Child master(
      {"master", job_file, "--listen", address, "--shards", "1", "--workers", "1", "--report", report}, log);
  Child shard({"shard", "--master", address}, dir + "/shard.log");
  Child worker({"worker", "--master", address}, dir + "/worker.log");
  if (const int status = master.wait(); status != 0)
    fail(ErrorCode::kInternal, "the master ended with status {}: {}", status, contents(log));
  worker.wait();
  shard.wait();
  return nlohmann::json::parse(contents(report));
}

}  // namespace embers
