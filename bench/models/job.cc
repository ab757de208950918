#include "bench/models/job.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "apps/process/child.h"
#include "apps/process/program.h"
#include "apps/process/runtime.h"
#include "base/errors.h"
#include "base/random_number.h"

namespace embers {
std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A command; its output goes to a file. Killed at the end if it still runs.
class JobProcess {
 public:
  JobProcess(const std::vector<std::string>& words, const std::string& log)
      : child_(words.at(0), boost::process::args(std::vector(words.begin() + 1, words.end())),
               (boost::process::std_out & boost::process::std_err) > log, ends_with_this_process()) {}
  ~JobProcess() { end(child_); }

  // Its exit status, or the number of the signal that ended it.
  int wait() { return child_.wait(), child_.exit_code(); }
  pid_t id() const { return child_.id(); }

 private:
  boost::process::child child_;
};

std::string criteo_job(const JobShape& shape, const std::string& dir, uint32_t epochs, uint32_t prefetch) {
  std::string text = fmt::format(
      "[job]\nname = \"bench\"\nseed = {}\n[model]\nname = \"{}\"\ndim = 16\n{}\n"
      "[data]\ndir = {}\ntrain = \"train.txt\"\ntest = \"test.txt\"\nformat = \"criteo\"\n"
      "[optimizer]\nname = \"adam\"\nlearning_rate = 0.001\n"
      "[training]\nbatch_size = 2048\nprefetch = {}\nepochs = {}\n[features]\n",
      shape.seed, shape.model, shape.layers, nlohmann::json(dir).dump(), prefetch, epochs);
  for (int i = 1; i <= 13; ++i)
    text += fmt::format("I{} = {{ as = \"numeric\", transform = \"log1p\" }}\n", i);
  for (int i = 1; i <= 26; ++i)
    text += fmt::format("C{} = {{ as = \"hash_bucket\", hash_bucket_size = 100000, missing = \"\" }}\n", i);
  return text;
}

BenchFolder::BenchFolder() : path((std::filesystem::temp_directory_path() / "embers-bench-XXXXXX").string()) {
  if (::mkdtemp(path.data()) == nullptr) fail(ErrorCode::kInvalid, "cannot make the folder '{}'", path);
}

BenchFolder::~BenchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

struct OpenJob::Processes {
  Processes(const std::string& job_file, const std::string& dir)
      : address(fmt::format("unix:@embers-bench-{}-{:016x}", ::getpid(), random_number())),
        master({program_beside("embers"), "master", job_file, "--shards", "1", "--workers", "1", "--listen",
                address},
               dir + "/open-master.log"),
        shard({program_beside("embers"), "shard", "--master", address}, dir + "/open-shard.log") {}

  const std::string address;
  JobProcess master, shard;
};

OpenJob::OpenJob(const std::string& job_file, const std::string& dir)
    : processes_(std::make_unique<Processes>(job_file, dir)) {}
OpenJob::~OpenJob() = default;
const std::string& OpenJob::address() const { return processes_->address; }
std::vector<pid_t> OpenJob::processes() const { return {processes_->master.id(), processes_->shard.id()}; }

nlohmann::json run_as_processes(const std::string& job_file, const std::string& dir,
                                const Placement& placement) {
  const std::string address = fmt::format("unix:@embers-bench-{}-{:016x}", ::getpid(), random_number());
  const std::string report = dir + "/report.json", log = dir + "/master.log";
  using Words = std::vector<std::string>;
  const auto start = [&](const std::string& role, Words words, const Words& more, const Words& by_default) {
    words.insert(words.begin(), {program_beside("embers"), role});
    const Words& where = placement.place ? more : by_default;
    words.insert(words.end(), where.begin(), where.end());
    return JobProcess(placement.place ? placement.place(role, words) : words, dir + "/" + role + ".log");
  };
  JobProcess master = start("master", {job_file, "--shards", "1", "--workers", "1", "--report", report},
                            placement.master, {"--listen", address});
  JobProcess shard = start("shard", {}, placement.members, {"--master", address});
  JobProcess worker = start("worker", {}, placement.members, {"--master", address});
  if (const int status = master.wait(); status != 0)
    fail(ErrorCode::kInternal, "the master ended with status {}: {}", status, contents(log));
  worker.wait();
  shard.wait();
  return nlohmann::json::parse(contents(report));
}

}  // namespace embers
