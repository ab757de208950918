#include "apps/process/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>

#include "apps/process/runtime.h"
#include "base/log/standard_error.h"

namespace embers {

std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& texts) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : texts) endpoints.push_back(parse_endpoint(text));
  return endpoints;
}

std::vector<std::string> texts(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> out;
  for (const Endpoint& e : endpoints) out.push_back(e.text());
  return out;
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

std::chrono::duration<double> connection_silence(const job::Job& job) {
  return std::chrono::duration<double>(job.job.heartbeat_timeout / 2);
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
