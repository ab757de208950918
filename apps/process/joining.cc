#include "apps/process/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>

#include "apps/process/open_files.h"
#include "apps/process/runtime.h"
#include "base/host.h"
#include "base/log/standard_error.h"
#include "client/joining/slurm.h"

namespace embers {

std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& texts) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : texts) endpoints.push_back(parse_endpoint(text));
  return endpoints;
}

bool is_of_this_host(const Endpoint& endpoint) {
  if (endpoint.unix_socket) return true;
  boost::asio::io_context io;
  boost::system::error_code unknown;
  const auto found = boost::asio::ip::tcp::resolver(io).resolve(endpoint.host, endpoint.port, unknown);
  return !found.empty() && std::all_of(found.begin(), found.end(), [](const auto& address) {
    return address.endpoint().address().is_loopback();
  });
}

namespace {

// Whether a process of this host can listen there, and others reach it.
bool is_address_of_this_host(const std::string& name) {
  namespace ip = boost::asio::ip;
  boost::asio::io_context io;
  boost::system::error_code failed;
  const auto found = ip::tcp::resolver(io).resolve(name, "0", failed);
  return !found.empty() && std::all_of(found.begin(), found.end(), [&](const auto& entry) {
    const ip::tcp::endpoint endpoint = entry.endpoint();
    ip::tcp::socket socket(io, endpoint.protocol());
    return !endpoint.address().is_loopback() && !socket.bind(endpoint, failed);
  });
}

}  // namespace

MasterOptions with_place(MasterOptions given) {
  if (!given.listen.empty()) return given;
  const auto slurm = slurm_job();
  given.listen = MasterOptions().listen;
  if (!slurm) return given;
  const std::string node = slurm->node.empty() ? host_name() : slurm->node;
  given.listen = {(is_address_of_this_host(node) ? node : "0.0.0.0") + ":0"};
  std::string& dir = given.access.job_dir;
  if (dir.empty()) dir = with_environment(JobLocation()).job_dir;
  if (dir.empty()) dir = slurm->job_dir();  // the environment names a master: the one that this will be
  return given;
}

Credentials credentials(const AccessOptions& options, const std::function<Secret()>& from_dir) {
  return find_credentials(options.secret_file, options.insecure,
                          options.job_dir.empty() ? [] { return Secret(); } : from_dir);
}

namespace {

JobLocation location(const JoinOptions& options) {
  const AccessOptions& access = options.access;
  return with_environment({.master = options.master,
                           .job_dir = access.job_dir,
                           .secret_file = access.secret_file,
                           .insecure = access.insecure,
                           .connect_timeout = std::chrono::duration<double>(options.connect_timeout)});
}

}  // namespace

void check_location(const JoinOptions& options) {
  const JobLocation known = location(options);
  if (known.master.empty() && known.job_dir.empty())
    fail(ErrorCode::kInvalid,
         "where is the master? Give --master HOST:PORT or --job-dir DIR, or set EMBERS_MASTER or "
         "EMBERS_JOB_DIR in the environment");
}

JobAccess find_job(const JoinOptions& options) {
  check_location(options);
  return find_job(location(options));
}

OwnerOptions owner_options(const JoinOptions& join, const std::vector<std::string>& listen,
                           const ReachedOptions& reached) {
  return {parse_endpoints(listen), parse_port_range(reached.port_range), parse_advertise(reached.advertise),
          std::chrono::duration<double>(join.connect_timeout), places_for_newcomers()};
}

MasterLink reach_master(Transport& transport, const JobAccess& access, const JoinOptions& options,
                        wire::Role role) {
  return reach_master(transport, access,
                      {.role = role,
                       .connect_timeout = std::chrono::duration<double>(options.connect_timeout),
                       .set = options.set});
}

void end_member(const std::optional<Error>& error) {
  if (error) say_error(error->what());
  end_process(error ? exit_status(error->code()) : 0);
}

}  // namespace embers
