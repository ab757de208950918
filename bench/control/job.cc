#include "bench/control/job.h"

#include <arpa/inet.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "actors/system_config.h"
#include "actors/transport/transport.h"
#include "apps/process/child.h"
#include "apps/process/program.h"
#include "base/errors.h"
#include "base/random_number.h"
#include "client/joining/reach_master.h"
#include "data/dataset.h"
#include "model/step.h"

namespace embers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRecords = 1 << 20;  // and minibatches of an epoch

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_job(const std::string& dir, uint32_t minibatches_per_lease) {
  std::ofstream data(dir + "/train.csv");
  for (size_t i = 0; i < kRecords; ++i) data << "1,0\n";
  std::ofstream job(dir + "/job.toml");
  job << fmt::format(
      "[job]\nname = \"control\"\n[model]\nname = \"deepfm\"\ndim = 4\n"
      "[data]\ndir = {}\ntrain = \"train.csv\"\n"
      "columns = [{{ name = \"user\", type = \"int\" }}, {{ name = \"label\", type = \"label\" }}]\n"
      "[training]\nbatch_size = 1\nepochs = 1000000\nminibatches_per_lease = {}\n",
      nlohmann::json(dir).dump(), minibatches_per_lease);
  if (!data.flush() || !job.flush()) fail(ErrorCode::kDisk, "cannot write a job into {}", dir);
}

// The number in a line "NAME:   NUMBER kB" of /proc/PID/status, in bytes.
size_t status_bytes(pid_t pid, const std::string& name) {
  std::ifstream in(fmt::format("/proc/{}/status", pid));
  for (std::string word; in >> word;)
    if (size_t kib = 0; word == name + ":" && in >> kib) return kib << 10;
  return 0;
}

}  // namespace

struct StatusCommand::Impl {
  // A new file, since one that is there would not be truncated.
  explicit Impl(const std::string& job_dir)
      : said(fmt::format("{}/status-{:x}.json", job_dir, random_number())),
        child(program_beside("embers"), boost::process::args({"status", "--json", "--job-dir", job_dir}),
              (boost::process::std_out & boost::process::std_err) > said, ends_with_this_process()) {}
  ~Impl() { end(child); }

  const std::string said;
  boost::process::child child;
};

StatusCommand::StatusCommand(const std::string& job_dir) : impl_(std::make_unique<Impl>(job_dir)) {}
StatusCommand::~StatusCommand() = default;

bool StatusCommand::is_running() { return impl_->child.running(); }

size_t StatusCommand::members() {
  const std::string said = contents(impl_->said);
  const auto status = nlohmann::json::parse(said, nullptr, false);
  if (impl_->child.exit_code() != 0 || !status.is_object())
    fail(ErrorCode::kInternal, "embers status ended with {}: {}", impl_->child.exit_code(),
         said.substr(0, 300));
  return status.at("members").size();
}

struct MasterProcess::Impl {
  Impl(const std::string& d, size_t owners, size_t workers)
      : dir(d),
        child(program_beside("embers"),
              boost::process::args({"master", dir + "/job.toml", "--job-dir", dir + "/members", "--listen",
                                    "127.0.0.1:0", "--shards", std::to_string(owners), "--workers",
                                    std::to_string(workers), "--report", dir + "/report.json"}),
              (boost::process::std_out & boost::process::std_err) > dir + "/master.log",
              ends_with_this_process()) {}
  ~Impl() { end(child); }

  const std::string dir;
  mutable boost::process::child child;
};

MasterProcess::MasterProcess(const std::string& dir, size_t owners, size_t workers,
                             uint32_t minibatches_per_lease)
    : impl_((fs::create_directory(dir), write_job(dir, minibatches_per_lease),
             std::make_unique<Impl>(dir, owners, workers))) {}

MasterProcess::~MasterProcess() = default;

// As a worker finds out: it asks the master for the job, makes the model and reads the data.
std::shared_ptr<const ControlJob> MasterProcess::job() const {
  JobLocation location;
  location.job_dir = impl_->dir + "/members";
  const JobAccess access = find_job(location);
  SystemConfig config;
  caf::actor_system system(config);
  Transport transport(system, access.credentials);
  MasterLink link = reach_master(transport, access, {.role = wire::Role::WORKER});
  link.actor = nullptr;
  transport.stop();
  auto job = std::make_shared<ControlJob>();
  const Endpoint endpoint = access.find_master().at(0);
  job->master.sin_family = AF_INET;
  job->master.sin_port = htons(static_cast<uint16_t>(std::stoi(endpoint.port)));
  ::inet_pton(AF_INET, endpoint.host.c_str(), &job->master.sin_addr);
  job->secret = access.credentials.secret;
  job->run = link.run;
  job->model = signature(ModelRunner::make(link.job)->spec());
  job->numeric = numeric_settings(1);
  job->settings = job::settings(link.job.source);
  const auto data = data::Dataset::open(link.job, data::Split::kTrain, link.index_dir)->signature();
  job->settings.insert(job->settings.end(), data.begin(), data.end());
  return job;
}

std::string MasterProcess::job_dir() const { return impl_->dir + "/members"; }

double MasterProcess::cpu_seconds() const {
  clockid_t clock;
  timespec now{};
  if (::clock_getcpuclockid(impl_->child.id(), &clock) != 0 || ::clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::map<std::string, double> MasterProcess::thread_seconds() const {
  std::map<std::string, double> seconds;
  std::error_code gone;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", impl_->child.id()), gone)) {
    std::ifstream name(task.path() / "comm"), spent(task.path() / "schedstat");
    std::string what;
    double ns = 0;
    if (std::getline(name, what) && spent >> ns)
      seconds[what + " " + task.path().filename().string()] += ns * 1e-9;
  }
  return seconds;
}

size_t MasterProcess::resident_bytes() const { return status_bytes(impl_->child.id(), "VmRSS"); }

size_t MasterProcess::most_resident_bytes() const { return status_bytes(impl_->child.id(), "VmHWM"); }

void MasterProcess::forget_most() {
  std::ofstream(fmt::format("/proc/{}/clear_refs", impl_->child.id())) << "5";
}

size_t MasterProcess::open_files() const {
  std::error_code gone;
  const fs::directory_iterator files(fmt::format("/proc/{}/fd", impl_->child.id()), gone);
  return static_cast<size_t>(std::distance(fs::begin(files), fs::end(files)));
}

void MasterProcess::stop() { ::kill(impl_->child.id(), SIGTERM); }

bool MasterProcess::is_running() const { return impl_->child.running(); }

std::string MasterProcess::report() const {
  impl_->child.wait();
  if (const int status = impl_->child.exit_code(); status != 0)
    fail(ErrorCode::kInternal, "the master ended with status {}: {}", status,
         contents(impl_->dir + "/master.log"));
  return contents(impl_->dir + "/report.json");
}

}  // namespace embers
