#include "apps/launch/members/orders.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "apps/launch/members/quoted.h"
#include "apps/process/program.h"
#include "base/errors.h"
#include "job/job.h"

namespace embers::launch {
namespace fs = std::filesystem;
namespace {

class Line {
 public:
  explicit Line(Words words) : words_(std::move(words)) {}
  Line& add(const std::string& option, const std::string& value) {
    if (!value.empty()) words_.insert(words_.end(), {option, value});
    return *this;
  }
  Line& add(const std::string& option, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(option, value);
    return *this;
  }
  Line& word(const std::string& word) {
    words_.push_back(word);
    return *this;
  }
  Line& flag(const std::string& flag, bool given) {
    if (given) words_.push_back(flag);
    return *this;
  }
  Words words() const { return words_; }

 private:
  Words words_;
};

std::string text(Task task) {
  switch (task) {
    case Task::kTrain:
      return "";
    case Task::kEvaluate:
      return "evaluate";
    case Task::kPredict:
      return "predict";
  }
  return "";
}

std::vector<std::string> listens(const LaunchOptions& options) {
  if (!options.master.listen.empty() || options.scheduler.slurm) return options.master.listen;
  return {options.hosts.empty() ? "127.0.0.1:0" : "0.0.0.0:0"};
}

Words master_words(const Plan& plan) {
  const MasterOptions& o = plan.options.master;
  Line line({plan.program, "master"});
  if (!o.job.job.empty()) line.word(o.job.job);
  line.add("--task", text(o.task)).add(o.task == Task::kTrain ? "--resume" : "--model", o.job.resume);
  line.add("--out", o.out).add("--set", o.job.set).add("--report", o.job.report);
  line.add("--output", o.job.output).add("--dump-rows", o.job.dump_rows);
  if (o.job.save_every > 0) line.add("--save-every", std::to_string(o.job.save_every));
  line.add("--listen", listens(plan.options)).add("--job-dir", plan.job_dir);
  line.add("--advertise", o.reached.advertise).add("--port-range", o.reached.port_range);
  line.add("--secret-file", o.access.secret_file).flag("--insecure", o.access.insecure);
  line.add("--shards", std::to_string(plan.job_shards)).add("--workers", std::to_string(plan.workers));
  line.add("--connect-timeout", fmt::format("{:g}", o.connect_timeout));
  return line.flag("--verbose", o.job.verbose).add("--data", o.data).words();
}

bool can_be_run(const fs::path& program) {
  std::error_code none;
  return fs::is_regular_file(program, none) && ::access(program.c_str(), X_OK) == 0;
}

// Found here, a mistake ends the launcher before anything has begun. What other hosts have is not known.
void check_command(const std::string& program) {
  const bool is_path = program.find('/') != std::string::npos;
  bool there = is_path && can_be_run(program);
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; !is_path && !there && std::getline(folders, folder, ':');)
    there = can_be_run(fs::path(folder) / program);
  if (!there)
    fail(ErrorCode::kInvalid, "cannot run '{}': there is no such program{}", program,
         is_path ? "" : " in PATH");
}

}  // namespace

Plan make_plan(const LaunchOptions& options) {
  const MasterOptions& o = options.master;
  const job::Job job = job::parse_job(o.job.job.empty() ? job::JobText{"(no job file)", "", o.job.set}
                                                        : job::read_job(o.job.job, o.job.set));
  if (job.from_worker && options.command.empty())
    fail(ErrorCode::kInvalid,
         "{}: without [model] and [data], these come with the workers: say which program they run, as in "
         "embers launch [JOB] -- python3 train.py",
         job.source.path);
  Plan plan;
  plan.options = options;
  plan.name = job.job.name;
  plan.workers = o.workers > 0 ? o.workers : job.training.workers;
  plan.job_shards = o.shards > 0 ? o.shards : options.owner ? plan.workers : job.storage.shards;
  if (options.owner && plan.job_shards > plan.workers)
    fail(ErrorCode::kInvalid,
         "--owner: {} workers cannot hold {} shards, each holds one; give --workers {} or --shards {}",
         plan.workers, plan.job_shards, plan.job_shards, plan.workers);
  plan.shards = options.owner ? 0 : plan.job_shards;
  plan.shards_return = o.task == Task::kTrain && !job.storage.journal.empty();
  plan.program = program_beside("embers");
  plan.runs_python = !job.model.python.empty();
  for (const std::string& address : o.listen)
    if (!options.hosts.empty() && address.starts_with("unix:"))
      fail(ErrorCode::kInvalid,
           "--listen {}: members on other hosts cannot reach a Unix socket; give HOST:PORT, where port 0 is "
           "a free one",
           address);
  if (options.scheduler.slurm && !options.hosts.empty())
    fail(ErrorCode::kInvalid, "--hosts and --scheduler do not go together: Slurm chooses the hosts");
  if (options.hosts.empty() && !options.remote_program.empty())
    fail(ErrorCode::kInvalid, "--remote-program is for the hosts of --hosts");
  const bool runs_here = options.hosts.empty() && !options.scheduler.slurm;
  if (runs_here && !options.command.empty()) check_command(options.command.front());
  if (plan.options.remote_program.empty()) plan.options.remote_program = plan.program;
  return plan;
}

std::string results_file(const Plan& plan) { return plan.job_dir + "/logs/master.out"; }

Order order_for(const Plan& plan, const Member& member, const std::string& master) {
  const AccessOptions& access = plan.options.master.access;
  const bool remote = !plan.options.hosts.empty() && member.kind != Kind::kMaster;
  Order order;
  order.member = member;
  order.environment["EMBERS_LABEL"] = member.label();
  order.log = plan.job_dir + "/logs/" + member.label() + ".log";
  // Elsewhere it has another environment.
  if (const char* const python = std::getenv("EMBERS_PYTHON");
      plan.runs_python && member.kind == Kind::kWorker && python != nullptr)
    order.environment["EMBERS_PYTHON"] = python;
  if (member.kind == Kind::kMaster) {
    order.output = results_file(plan);
    order.words = master_words(plan);
    return order;
  }
  const std::string& port_range = plan.options.master.reached.port_range;
  // Workers that embers scale adds find that all shards are there.
  const bool owner = plan.options.owner && member.kind == Kind::kWorker && member.number < plan.job_shards;
  if (member.kind == Kind::kWorker && !plan.options.command.empty()) {
    order.words = plan.options.command;
    order.environment["EMBERS_MASTER"] = master;
    if (owner) order.environment["EMBERS_OWNER"] = "1";
    if (owner && !port_range.empty()) order.environment["EMBERS_PORT_RANGE"] = port_range;
    if (remote) return order;
    order.environment["EMBERS_JOB_DIR"] = plan.job_dir;
    if (!access.insecure)
      order.environment["EMBERS_SECRET_FILE"] =
          access.secret_file.empty() ? plan.job_dir + "/secret" : access.secret_file;
    return order;
  }
  Line line({remote ? plan.options.remote_program : plan.program,
             member.kind == Kind::kShard ? "shard" : "worker"});
  remote ? line.add("--master", master) : line.add("--job-dir", plan.job_dir);
  if (!remote) line.add("--secret-file", access.secret_file);
  line.flag("--insecure", access.insecure);
  line.flag("--owner", owner);
  if (owner || member.kind == Kind::kShard) line.add("--port-range", port_range);
  order.words =
      line.add("--connect-timeout", fmt::format("{:g}", plan.options.master.connect_timeout)).words();
  return order;
}

std::string command_line(const Order& order, const Words& words) {
  std::string line;
  if (words == order.words)
    for (const auto& [name, value] : order.environment) line += name + "=" + quoted(value) + " ";
  return line + quoted(words);
}

}  // namespace embers::launch
