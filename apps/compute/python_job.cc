#include "apps/compute/python_job.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "actors/routing/remote_owner.h"
#include "actors/transport/server.h"
#include "apps/compute/python_program.h"
#include "apps/process/child.h"
#include "apps/process/joining.h"
#include "apps/process/outcome.h"
#include "apps/process/runtime.h"
#include "base/cpus.h"
#include "base/log/standard_error.h"
#include "base/random_number.h"
#include "client/owner/joined_owner.h"
#include "storage/memory/page_filler.h"

namespace embers {
namespace {

namespace bp = boost::process;

constexpr auto kLook = std::chrono::milliseconds(50);  // whether a worker has ended
constexpr auto kLeave = std::chrono::seconds(5);       // for workers that are told that the job is over

// The owners of this process, which join like those of other processes: nobody knows their tables before the
// first worker has come.
class OwnersHere {
 public:
  OwnersHere(caf::actor_system& system, const MasterConfig& config, const JoinOptions& join,
             const JobAccess& access, std::vector<int> cpus, LocalMasterActor master)
      : cpus_(std::move(cpus)), master_(std::move(master)) {
    const auto flow = std::make_shared<Flow>();
    const auto page_filler = std::make_shared<storage::PageFiller>();
    for (uint32_t s = 0; s < config.shards; ++s)
      owners_.push_back(
          std::make_unique<JoinedOwner>(system, owner_options(join), access, flow, page_filler));
    thread_ = std::thread([this] { join_all(); });
  }
  // After the server's dismissal, so that none waits to join.
  ~OwnersHere() {
    thread_.join();
    for (const auto& owner : owners_) owner->leave();
    for (const auto& owner : owners_) owner->end();
  }
  OwnersHere(const OwnersHere&) = delete;
  OwnersHere& operator=(const OwnersHere&) = delete;

 private:
  void join_all() {
    const Verdict nothing = [](const std::optional<Error>&) {};  // the master says how the job ended
    try {
      for (size_t s = 0; s < owners_.size(); ++s)
        owners_[s]->join(static_cast<uint32_t>(owners_.size() - s - 1), cpu_of(cpus_, s), nothing);
    } catch (const Error& e) {
      caf::anon_send(caf::actor_cast<MasterActor>(master_),
                     make_message<wire::FailRequest>([&](wire::FailRequest::Builder b) {
                       b.setCode(static_cast<uint8_t>(e.code()));
                       b.setMessage(e.what());
                     }));
    }
  }

  const std::vector<int> cpus_;
  const LocalMasterActor master_;
  std::vector<std::unique_ptr<JoinedOwner>> owners_;
  std::thread thread_;
};

std::string how_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("has ended with status {}", WEXITSTATUS(status));
}

// The Python processes of the workers.
class Workers {
 public:
  Workers(uint32_t count, const JoinOptions& join) {
    const std::vector<std::string> command = python_command(worker_words({join}));
    ::unsetenv("EMBERS_LABEL");  // this process's in another job
    for (uint32_t w = 0; w < count; ++w)
      processes_.emplace_back(kFindInPath, bp::args(command), bp::std_in < bp::null,
                              // Ctrl-C is for the master: it says when they are to end.
                              ends_with_this_process([] { ::signal(SIGINT, SIG_IGN); }));
  }
  ~Workers() {
    for (bp::child& process : processes_) end(process);
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Why the job cannot go on: one has failed, or all have gone.
  std::optional<Error> trouble() {
    for (bp::child& process : processes_) {
      std::error_code none;
      if (process.running(none) || process.exit_code() == 0) continue;
      if (process.exit_code() == 127 && was_not_found(process))
        return Error(
            ErrorCode::kInvalid,
            fmt::format("cannot start {}, which the model of this job, a Python module, needs; name an "
                        "interpreter in EMBERS_PYTHON",
                        python_command({}).front()));
      const int status = process.native_exit_code();
      return Error(WIFEXITED(status) && WEXITSTATUS(status) == 2 ? ErrorCode::kInvalid : ErrorCode::kLost,
                   fmt::format("the Python process of a worker (pid {}) {}; what it said stands above",
                               process.id(), how_ended(status)));
    }
    if (all_gone()) return Error(ErrorCode::kLost, "the Python processes of all workers have ended");
    return std::nullopt;
  }
  bool all_gone() {
    std::error_code none;
    return std::none_of(processes_.begin(), processes_.end(), [&](bp::child& p) { return p.running(none); });
  }

 private:
  std::vector<bp::child> processes_;
};

}  // namespace

void run_python_job(const std::shared_ptr<MasterConfig>& config, Console& console,
                    const std::vector<int>& cpus, const std::function<void(const JobResult&)>& conclude) {
  spdlog::set_level(spdlog::level::warn);  // that owners have joined is no news in a process of their own
  SystemConfig system_config(config->shards);
  caf::actor_system system(system_config);
  Transport transport(system);
  JoinOptions join;
  join.master = fmt::format("unix:@embers-train-{}-{:016x}", ::getpid(), random_number());
  Server::Options serving;
  serving.job = config->run;
  serving.accept_strangers = true;
  serving.silence = connection_silence(config->job);
  const auto server = Server::listen(transport, {parse_endpoint(join.master)}, serving);
  config->connect_owner = [&](const std::string& who, const std::vector<std::string>& endpoints,
                              const std::string& there, uint64_t incarnation) {
    return remote_owner(transport, who, endpoints, there == config->boot_id,
                        {config->run, incarnation, wire::Role::MASTER},
                        std::chrono::duration<double>(join.connect_timeout), true);
  };
  config->drop_owner = [](const OwnerHandles& owner) {
    drop_remote_owner(owner, "the master has given up on this shard");
  };
  Outcome<JobResult> ended;
  show_on(console, *config);
  config->on_end = [&](JobResult result) { ended.give(std::move(result)); };
  const LocalMasterActor master = spawn_master(system, config);
  server->serve<MasterInterface>(Destination::kMaster, caf::actor_cast<MasterActor>(master));
  server->start();
  std::optional<SignalWatch> watch(
      std::in_place, [&](const std::string& signal) { caf::anon_send(master, stop_atom::value, signal); });
  const JobAccess access = find_job(join);
  std::optional<OwnersHere> owners(std::in_place, system, *config, join, access, cpus, master);
  std::optional<Workers> workers(std::in_place, config->workers, join);
  for (bool failed = false; !ended.comes_within(kLook);) {
    const auto trouble = failed ? std::nullopt : workers->trouble();
    if (!trouble) continue;
    failed = true;  // unless the job was about to end
    caf::anon_send(caf::actor_cast<MasterActor>(master),
                   make_message<wire::FailRequest>([&](wire::FailRequest::Builder b) {
                     b.setCode(static_cast<uint8_t>(trouble->code()));
                     b.setMessage(trouble->what());
                   }));
  }
  const JobResult result = ended.wait();
  console.finish();
  server->stop();
  server->dismiss(
      result.error ? Error(ErrorCode::kJobFailed, result.error->what())
                   : Error(ErrorCode::kEnded, fmt::format("the job '{}' has ended", config->job.job.name)));
  const auto deadline = std::chrono::steady_clock::now() + kLeave;
  while (!workers->all_gone() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kLook);
  workers.reset();
  owners.reset();
  transport.stop();
  watch.reset();  // from now on a signal ends the process
  try {
    conclude(result);
  } catch (const Error& e) {
    say_error(e.what());
    end_process(exit_status(e.code()));
  }
  end_process(0);
}

}  // namespace embers
