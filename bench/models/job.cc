#include "bench/models/job.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "apps/process/child.h"
#include "apps/process/program.h"
#include "apps/process/runtime.h"
#include "base/errors.h"
#include "base/random_number.h"

namespace embers {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A process of the program embers with these arguments; its output goes to a file. Killed at the end if it
// still runs.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::string& log)
      : child_(program_beside("embers"), boost::process::args(arguments),
               (boost::process::std_out & boost::process::std_err) > log, ends_with_this_process()) {}
  ~Child() { end(child_); }

  // Its exit status, or the number of the signal that ended it.
  int wait() { return child_.wait(), child_.exit_code(); }

 private:
  boost::process::child child_;
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
