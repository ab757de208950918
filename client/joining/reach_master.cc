#include "client/joining/reach_master.h"

#include <cstdlib>
#include <optional>
#include <thread>

#include "actors/errors.h"
#include "actors/routing/remote_owner.h"
#include "actors/transport/addresses/job_dir.h"
#include "base/host.h"
#include "base/random_number.h"
#include "client/joining/slurm.h"
#include "schema/label.h"

namespace embers {
namespace {

constexpr double kMostSeconds = 1e9;
constexpr auto kLookAgain = std::chrono::milliseconds(50);  // whether there is a master

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void wait_for_address(const std::string& job_dir, std::chrono::duration<double> timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!find_address(job_dir)) {
    if (std::chrono::steady_clock::now() >= deadline)
      fail(ErrorCode::kUnreachable,
           "no master has written '{}/address'{}: is it running, with --job-dir and this directory?", job_dir,
           timeout.count() > 0 ? fmt::format(" within {} s", timeout.count()) : "");
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace

JobLocation with_environment(JobLocation given) {
  if (!given.master.empty() || !given.job_dir.empty()) return given;
  given.master = variable("EMBERS_MASTER");
  given.job_dir = variable("EMBERS_JOB_DIR");
  const auto slurm = slurm_job();
  if (slurm && given.master.empty() && given.job_dir.empty()) given.job_dir = slurm->job_dir();
  return given;
}

JobLocation location_of(const client::Options& options, const char* type) {
  JobLocation location = with_environment(
      {options.master, options.job_dir, options.secret_file, options.insecure, options.connect_timeout});
  for (const auto& [name, seconds] :
       {std::pair("connect_timeout", options.connect_timeout), std::pair("timeout", options.timeout)})
    if (!(seconds.count() >= 0 && seconds.count() <= kMostSeconds))
      fail(ErrorCode::kInvalid, "{}::{} is {} s: it must be from 0 to {}", type, name, seconds.count(),
           kMostSeconds);
  const bool two = !options.master.empty() && !options.job_dir.empty();
  if (two || (location.master.empty() && location.job_dir.empty()))
    fail(ErrorCode::kInvalid,
         "where is the master? Give its address ({0}::master) or its job directory ({0}::job_dir), and not "
         "both, or set EMBERS_MASTER or EMBERS_JOB_DIR in the environment",
         type);
  return location;
}

std::string label_from_environment() {
  std::string label = variable("EMBERS_LABEL");
  check_label(label);
  return label;
}

Credentials find_credentials(const std::string& secret_file, bool insecure,
                             const std::function<Secret()>& from_dir) {
  if (insecure) return {{}, true};
  return {secret_file.empty() ? from_dir() : read_secret(secret_file), false};
}

JobAccess find_job(const JobLocation& location) {
  JobAccess access;
  const std::string& dir = location.job_dir;
  if (!location.master.empty()) {
    access.master = "the master at " + location.master;
    access.address = location.master;
    access.find_master = [endpoint = parse_endpoint(location.master)] { return std::vector{endpoint}; };
  } else {
    access.master = access.address = fmt::format("the master of '{}'", dir);
    access.find_master = [dir] {
      const auto endpoints = find_address(dir);
      if (!endpoints) fail(ErrorCode::kUnavailable, "no master has written '{}/address'", dir);
      return *endpoints;
    };
    wait_for_address(dir, location.connect_timeout);  // the master makes the secret before it writes that
  }
  access.credentials = find_credentials(location.secret_file, location.insecure, [&] {
    return dir.empty() ? Secret() : find_secret(dir).value_or(Secret());
  });
  return access;
}

MasterLink reach_master(Transport& transport, const JobAccess& access, const ReachOptions& options) {
  const auto link = Link::open(transport, access.address, access.find_master, {0, 0, options.role},
                               options.connect_timeout);
  link->keep();  // whatever is asked of a master may be asked twice
  MasterLink master;
  master.actor = link->proxy<MasterInterface>(Destination::kMaster);
  master.name = access.master;
  master.role = options.role;
  caf::scoped_actor self{transport.system()};
  Message<wire::JobReply> reply;
  std::optional<Error> error;
  self->request(master.actor, options.patience, make_message<wire::JobRequest>())
      .receive([&](const Message<wire::JobReply>& m) { reply = m; },
               [&](caf::error& e) { error = from_caf(e); });
  if (error && error->code() == ErrorCode::kTimeout)
    fail(ErrorCode::kTimeout,
         "{} accepted a connection, but does not say what its job is: check that the process is not "
         "stopped, or wait longer",
         access.master);
  if (error) throw Error(*error);
  decoding(Kind::kJobReply, [&] {
    const auto r = reply.get();
    job::JobText text{r.getPath(), r.getText(), read_texts(r.getOverrides())};
    text.overrides.insert(text.overrides.end(), options.set.begin(), options.set.end());
    master.run = r.getJob();
    master.index_dir = r.getIndexDir();
    master.evaluates = r.getEvaluates();
    master.version = r.getVersion();
    master.wants_model = r.getWantsModel();
    master.job = job::parse_job(std::move(text));
    if (master.evaluates) job::keep_rows_in_memory(master.job);
  });
  return master;
}

std::chrono::duration<double> connection_silence(const job::Job& job) {
  return std::chrono::duration<double>(job.job.heartbeat_timeout / 2);
}

std::vector<std::string> texts(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> out;
  for (const Endpoint& e : endpoints) out.push_back(e.text());
  return out;
}

void connect_over(Transport& transport, const MasterLink& master, std::chrono::duration<double> timeout,
                  SessionConfig& config) {
  config.role = master.role;
  config.run = master.run;
  config.master = master.actor;
  config.master_name = master.name;
  config.token = random_number();
  config.host = host_name();
  config.boot_id = boot_id();
  config.label = label_from_environment();
  config.connect_owner = [&transport, run = master.run, role = master.role, here = config.boot_id, timeout](
                             size_t number, const std::vector<std::string>& endpoints,
                             const std::string& there, uint64_t incarnation) {
    return remote_owner(transport, fmt::format("shard {}", number), endpoints, !here.empty() && here == there,
                        {run, incarnation, role}, timeout, false);
  };
  config.drop_owner = [](const OwnerHandles& owner) {
    drop_remote_owner(owner, "the shard has moved to another process");
  };
  config.memory = transport.memory();
}

}  // namespace embers
