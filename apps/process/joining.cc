#include "apps/process/joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <thread>

#include "actors/ask.h"
#include "apps/process/job_dir.h"
#include "apps/process/owner_config.h"
#include "apps/process/runtime.h"
#include "base/log/standard_error.h"

namespace embers {
namespace {

constexpr auto kLookAgain = std::chrono::milliseconds(50);  // whether there is a master

}  // namespace

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
  if (options.insecure) return {{}, true};
  if (!options.secret_file.empty()) return {read_secret(options.secret_file), false};
  return {options.job_dir.empty() ? Secret() : from_dir(), false};
}

JobAccess find_job(const JoinOptions& options) {
  JobAccess access;
  const std::string& dir = options.access.job_dir;
  if (dir.empty()) {
    if (options.master.empty())
      fail(ErrorCode::kInvalid, "where is the master? Give --master HOST:PORT or --job-dir DIR");
    access.master = "the master at " + options.master;
    access.address = options.master;
    access.find_master = [endpoint = parse_endpoint(options.master)] { return std::vector{endpoint}; };
  } else {
    access.master = access.address = fmt::format("the master of '{}'", dir);
    access.find_master = [dir] {
      const auto endpoints = find_address(dir);
      if (!endpoints) fail(ErrorCode::kUnavailable, "no master has written '{}/address'", dir);
      return *endpoints;
    };
    // The master makes the secret before it says where it listens.
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(options.connect_timeout);
    while (!find_address(dir)) {
      if (std::chrono::steady_clock::now() >= deadline)
        fail(ErrorCode::kUnreachable,
             "no master has written '{}/address' within {} s: is it running, with --job-dir and this "
             "directory?",
             dir, options.connect_timeout);
      std::this_thread::sleep_for(kLookAgain);
    }
  }
  access.credentials = credentials(options.access, [&] { return find_secret(dir).value_or(Secret()); });
  return access;
}

std::chrono::duration<double> connection_silence(const job::Job& job) {
  return std::chrono::duration<double>(job.job.heartbeat_timeout / 2);
}

MasterLink reach_master(Transport& transport, const JobAccess& access, const JoinOptions& options,
                        wire::Role role) {
  const auto link = Link::open(transport, access.address, access.find_master, {0, 0, role},
                               std::chrono::duration<double>(options.connect_timeout));
  MasterLink master;
  master.actor = link->proxy<MasterInterface>(Destination::kMaster);
  caf::scoped_actor self{transport.system()};
  const auto reply = ask(self.ptr(), master.actor, make_message<wire::JobRequest>());
  decoding(Kind::kJobReply, [&] {
    const auto r = reply.get();
    job::JobText text{r.getPath(), r.getText(), read_texts(r.getOverrides())};
    text.overrides.insert(text.overrides.end(), options.set.begin(), options.set.end());
    master.run = r.getJob();
    master.index_dir = r.getIndexDir();
    master.evaluates = r.getEvaluates();
    master.job = job::parse_job(std::move(text));
    if (master.evaluates) keep_rows_in_memory(master.job);
  });
  return master;
}

void end_member(const std::optional<Error>& error) {
  if (error) say_error(error->what());
  end_process(error ? exit_status(error->code()) : 0);
}

}  // namespace embers
