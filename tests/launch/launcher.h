#pragma once

#include <optional>

#include "client/admin.h"
#include "tests/integration/jobs.h"
#include "tests/launch/launched.h"

namespace embers::testing_support {

// An `embers launch` in a folder of a small job, and how its job stands.
class Launcher {
 public:
  // With a job directory of the folder.
  Launcher(const JobFolder& folder, const Words& words)
      : folder_(folder), mark_("EMBERS_LAUNCH_TEST=" + folder.path("")) {
    // Everything that it starts inherits the mark, guards and whatever a member runs included.
    process_.emplace(Words{"/usr/bin/env", mark_, path_of(EMBERS_COMMAND), "launch", folder.job(),
                           "--job-dir", job_dir(), "--report", folder.path("out.json")} +
                         words,
                     folder.path("launch.log"));
  }

  std::string job_dir() const { return folder_.path("job"); }
  Process& process() { return *process_; }
  std::string output() const { return process_->output(); }
  std::string log(const std::string& label) const { return folder_.read("job/logs/" + label + ".log"); }

  Status status() {
    if (!admin_) admin_.emplace(client::AdminOptions{{.job_dir = job_dir()}, true});
    return admin_->status();
  }
  void scale(uint32_t workers) {
    status();
    admin_->scale(workers);
  }
  // Whether the job comes to be like this within so many seconds.
  bool becomes(const std::function<bool(const Status&)>& condition, double seconds = 60) {
    return wait_until([&] { return process_->wait(0) != -1 || condition(status()); }, seconds) &&
           process_->wait(0) == -1;
  }
  bool trains() {
    return becomes([](const Status& s) { return s.phase == "training" && s.minibatches_done > 0; });
  }
  // Of the member with this label, once it has joined.
  std::optional<Status::Member> member(const std::string& label) {
    for (const Status::Member& m : status().members)
      if (m.label == label && m.state != "disconnected") return m;
    return std::nullopt;
  }
  pid_t pid(const std::string& label) {
    std::optional<Status::Member> found;
    EXPECT_TRUE(wait_until([&] { return (found = member(label)).has_value(); }, 30)) << output();
    return found ? static_cast<pid_t>(found->pid) : -1;
  }
  static uint64_t working(const Status& s) {
    uint64_t n = 0;
    for (const Status::Member& m : s.members)
      n += m.role == "worker" && m.state != "draining" && m.state != "disconnected" && m.state != "joining";
    return n;
  }

  // All processes that it has started, and itself.
  std::vector<pid_t> processes() const { return processes_about(mark_); }
  // Whether none of them is left soon.
  bool leaves_nothing(double seconds = 10) const {
    return wait_until([&] { return processes().empty(); }, seconds);
  }
  // Its guard's process.
  pid_t guard() const {
    for (const pid_t pid : processes()) {
      const std::string words = read_file("/proc/" + std::to_string(pid) + "/cmdline");
      if (words.find(std::string("\0guard\0", 7)) != std::string::npos) return pid;
    }
    return -1;
  }

 private:
  const JobFolder& folder_;
  const std::string mark_;
  std::optional<Process> process_;
  std::optional<client::Admin> admin_;
};

inline const Words kTwoByTwo{"--shards", "2", "--workers", "2"};

// A job that takes a while, whose rows count the records that held their key.
inline Words counting(const JobFolder& folder, int epochs = 3, int sleep_ms = 20) {
  return set({"optimizer.name=sgd", "optimizer.learning_rate=1", "training.reduction=sum",
              "training.epochs=" + std::to_string(epochs), "model.sleep_ms=" + std::to_string(sleep_ms)}) +
         folder.probe("count");
}
// One that does not end in a test's time.
inline Words endless(const JobFolder& folder) { return counting(folder, 1'000'000); }

}  // namespace embers::testing_support
