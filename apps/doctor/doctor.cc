// embers doctor: whether this host can take part in a running job.
#include "apps/doctor/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "actors/system_config.h"
#include "actors/transport/addresses/local_address.h"
#include "actors/transport/server.h"
#include "apps/doctor/here.h"
#include "apps/doctor/network.h"
#include "apps/process/joining.h"
#include "base/host.h"

namespace embers {
namespace {

using std::chrono::duration;

class Doctor {
 public:
  explicit Doctor(const DoctorOptions& options) : options_(options) {}

  const Findings& examine() {
    try {
      const JobAccess access = find_job(options_.join);
      SystemConfig config;
      caf::actor_system system(config);
      Transport transport(system, access.credentials);
      examine_job(system, transport, access);
      transport.stop();
    } catch (const Error& e) {
      findings_.failed(e.code() == ErrorCode::kDenied ? "secret" : "master", e.what(), advice(e));
    }
    return findings_;
  }

 private:
  static std::string advice(const Error& e) {
    if (e.code() == ErrorCode::kMismatch) return "install the same version of embers on all hosts";
    if (e.code() == ErrorCode::kDenied)
      return "give the job directory of this job (--job-dir), or a copy of its secret (--secret-file)";
    return "";
  }

  void examine_job(caf::actor_system& system, Transport& transport, const JobAccess& access) {
    const MasterLink master = reach_master(transport, access, options_.join, wire::Role::ADMIN);
    const auto link =
        Link::open(transport, access.address, access.find_master, {0, 0, wire::Role::ADMIN}, patience());
    const ProbeActor probe = link->proxy<ProbeInterface>(Destination::kProbe);
    const auto about = ask_about(system, probe);
    findings_.ok("master", fmt::format("reached at {}: job '{}', pid {} on {}",
                                       fmt::join(texts(access.find_master()), " or "), master.job.job.name,
                                       about.get().getPid(), about.get().getHost().cStr()));
    compare_versions("versions", "master", about.get().getVersion());
    findings_.ok("secret", access.credentials.secret ? "the same here and at the master" : "none is used");
    const auto server = listen(transport, access, master);
    examine_peer(system, probe, "master", about.get().getBootId() == boot_id());
    for (const auto place : about.get().getOwners()) examine_shard(system, transport, master, place);
    examine_files(master.job, master.evaluates, findings_);
    const bool sync = master.job.training.mode == job::Mode::kSync;
    if (!options_.skip_data)
      examine_worker(options_.join, read_texts(about.get().getSettings()),
                     read_texts(about.get().getNumeric()), sync, findings_);
    if (server) server->stop();
  }

  // Those that speak another protocol have not come so far.
  void compare_versions(const std::string& check, const std::string& name, const std::string& there) {
    if (there == EMBERS_VERSION)
      return findings_.ok(check, fmt::format("embers {} here and at the {}", there, name));
    findings_.add(
        {check, Finding::Verdict::kWarning,
         fmt::format("embers {} here, {} at the {}", EMBERS_VERSION, there, name),
         "they understand each other, but install the same version of embers on all hosts: others were not "
         "tried together",
         nlohmann::json::object()});
  }

  duration<double> patience() const { return duration<double>(options_.join.connect_timeout); }

  // As a shard on this host would.
  std::shared_ptr<Server> listen(Transport& transport, const JobAccess& access, const MasterLink& master) {
    const std::vector<Endpoint> there = access.find_master();
    std::vector<Endpoint> endpoints = parse_endpoints(options_.listen);
    if (endpoints.empty())
      for (const Endpoint& e : there)
        if (!e.unix_socket && endpoints.empty())
          endpoints.push_back({false, local_address_towards(e.host, e.port), "0"});
    if (endpoints.empty()) return nullptr;
    try {
      Server::Options serving;
      serving.job = master.run;
      serving.ports = parse_port_range(options_.reached.port_range);
      auto server = Server::listen(transport, endpoints, serving);
      here_ = advertised(server->endpoints(), parse_advertise(options_.reached.advertise), there);
      server->serve<ProbeInterface>(Destination::kProbe,
                                    spawn_probe(transport, {"embers doctor", {}, {}, nullptr}, {}));
      server->start();
      return server;
    } catch (const Error& e) {
      findings_.failed("listening", e.what());
      return nullptr;
    }
  }

  void examine_peer(caf::actor_system& system, const ProbeActor& probe, const std::string& name,
                    bool same_host) {
    examine_network(system, probe, name, same_host, findings_);
    if (!here_.empty()) examine_way_back(system, probe, name, here_, findings_);
  }

  void examine_shard(caf::actor_system& system, Transport& transport, const MasterLink& master,
                     wire::AboutReply::Place::Reader place) {
    const std::string who = place.getName(), name = who.substr(0, who.find(" ("));
    const bool same_host = place.getOwner().getBootId() == boot_id();
    std::vector<Endpoint> endpoints;
    for (const std::string& text : read_texts(place.getOwner().getEndpoints()))
      if (Endpoint e = parse_endpoint(text); same_host || !is_on_this_host(e))
        endpoints.push_back(std::move(e));
    if (endpoints.empty())
      return findings_.failed(
          name, fmt::format("{} listens where only its own host reaches it", who),
          "start it with an address of the master that other hosts know (--master), or with "
          "--listen 0.0.0.0:0 or --advertise");
    try {
      const auto link = Link::open(
          transport, who + " at " + fmt::format("{}", fmt::join(texts(endpoints), " or ")),
          [endpoints] { return endpoints; }, {master.run, 0, wire::Role::ADMIN}, patience());
      const ProbeActor probe = link->proxy<ProbeInterface>(Destination::kProbe);
      const auto about = ask_about(system, probe);
      findings_.ok(name, fmt::format("reached at {}: pid {} on {}", fmt::join(texts(endpoints), " or "),
                                     about.get().getPid(), about.get().getHost().cStr()));
      if (about.get().getVersion() != EMBERS_VERSION)
        compare_versions(name + ": version", name, about.get().getVersion());
      examine_peer(system, probe, name, same_host);
    } catch (const Error& e) {
      findings_.failed(name, e.what());
    }
  }

  const DoctorOptions& options_;
  Findings findings_;
  std::vector<Endpoint> here_;  // where this process is reached
};

// What nobody could use, before a master is looked for.
void check(const DoctorOptions& options) {
  check_location(options.join);
  parse_endpoints(options.listen);
  parse_port_range(options.reached.port_range);
  parse_advertise(options.reached.advertise);
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  check(options);
  Doctor doctor(options);
  const Findings& findings = doctor.examine();
  if (options.json) {
    nlohmann::json json = findings.json();
    json["host"] = host_name();
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}\n{}\n", findings.text(),
               findings.has_failed() ? "Something is wrong: what to do is said above."
                                     : fmt::format("{} can take part in this job.", host_name()));
  }
  return findings.has_failed() ? 2 : 0;
}

}  // namespace embers
