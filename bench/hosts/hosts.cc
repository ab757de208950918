// embers bench hosts: deepfm with its worker on another host than master and shard, compared with the same
// job on one host.
//
// The hosts are namespaces of this machine, joined by a link of 1 Gbit/s and 0.5 ms each way (local_hosts.h).
// The model and its data are those of bench train: generated Criteo data, ids hashed to 100 000 a column, dim
// 16, batch 2048, Adam. Prefetch is what the documents advise: 2, the default, on one host, and 8 between
// hosts. Both sides run as users would, on one host through Unix sockets. They take turns; epochs after the
// first count, when every row is there, and a side's speed in a run is its median epoch.
//
//   hosts.deepfm_vs_local   examples a second across the link over those on one host
//
// The link and the far host's kernel use the cores that the job uses, which two machines would not.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/hosts/local_hosts.h"
#include "bench/models/job.h"
#include "data/synth.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kProbeBytes = 64 << 20;
constexpr uint32_t kPrefetchHere = 2, kPrefetchThere = 8;

// Test losses: rows are five minibatches old there in the mean, two here. Not with --quick, whose epochs have
// thirteen.
constexpr double kFarthest = 0.02;

struct Length {
  uint64_t rows;
  uint32_t epochs;
  int pairs;
};

double examples_per_second(const Json& report) {
  std::vector<double> speeds;
  for (const Json& epoch : report["epochs"])
    speeds.push_back(epoch["examples"].get<double>() / epoch["seconds"].get<double>());
  speeds.erase(speeds.begin());
  return median(speeds);
}

// What the link allows a bare TCP connection.
Json measure_link(LocalHosts& hosts) {
  const std::string program = LocalHosts::program();
  BenchChild receiver(hosts.on(1, {program, "receive", LocalHosts::ipv4(1), "7001", "until-input-ends"}));
  const auto seconds = [&](size_t bytes) {
    const BenchChild sender(
        hosts.on(0, {program, "send", LocalHosts::ipv4(1), "7001", std::to_string(bytes)}));
    return std::stod(sender.ready());
  };
  std::vector<double> rates, trips;
  for (int i = 0; i < 3; ++i) {
    rates.push_back(8 * static_cast<double>(kProbeBytes) / seconds(kProbeBytes));
    trips.push_back(seconds(1) / 2);
  }
  return {{"bits_per_second", spread(rates)}, {"round_trip_seconds", spread(trips)}};
}

Placement across(const LocalHosts& hosts) {
  return {{"--listen", LocalHosts::ipv4(0) + ":7700", "--insecure"},
          {"--master", LocalHosts::ipv4(0) + ":7700", "--insecure"},
          [&hosts](const std::string& role, const std::vector<std::string>& command) {
            return hosts.on(role == "worker" ? 1 : 0, command);
          }};
}

}  // namespace

int bench_hosts(const BenchOptions& options) {
  LocalHosts hosts;
  if (!hosts.forbidden().empty())
    fail(ErrorCode::kInvalid, "embers bench hosts needs network namespaces and TUN devices: {}",
         hosts.forbidden());
  Json report = begin_report("hosts", options, options.quick ? "quick" : "");
  const Length length = options.quick ? Length{30'000, 3, 3} : Length{110'000, 4, 9};
  const BenchFolder folder;
  data::write_criteo(length.rows, 7, folder.path);
  const auto job_file = [&](uint32_t prefetch) {
    const std::string file = fmt::format("{}/prefetch-{}.toml", folder.path, prefetch);
    std::ofstream(file) << criteo_job({"deepfm", ""}, folder.path, length.epochs, prefetch);
    return file;
  };
  const std::string here_file = job_file(kPrefetchHere), there_file = job_file(kPrefetchThere);
  report["link"] = measure_link(hosts);
  fmt::print(
      "link: {:.0f} Mbit/s, a round trip takes {:.2f} ms\n\none host   two hosts   ratio   (examples/s)\n",
      report["link"]["bits_per_second"]["median"].get<double>() / 1e6,
      report["link"]["round_trip_seconds"]["median"].get<double>() * 1e3);
  std::vector<double> local, linked, cores, losses[2];
  const auto run = [&](size_t side, const std::string& file, const Placement& placement) {
    const Json done = run_as_processes(file, folder.path, placement);
    double least = INFINITY;
    for (const Json& epoch : done["epochs"]) least = std::min(least, epoch["test_loss"].get<double>());
    losses[side].push_back(least);
    return examples_per_second(done);
  };
  Contest contest;
  contest.add("one_host", "", [&] {
    local.push_back(run(0, here_file, {}));
    return Cost{1 / local.back()};
  });
  contest.add("two_hosts", "", [&] {
    const auto begin = BenchClock::now();
    const double cpu = hosts.cpu_seconds();
    linked.push_back(run(1, there_file, across(hosts)));
    cores.push_back((hosts.cpu_seconds() - cpu) / seconds_since(begin));
    return Cost{1 / linked.back()};
  });
  for (int i = 0; i < length.pairs; ++i) {
    contest.measure(1);
    report["pairs"].push_back(
        {{"one_host", local.back()}, {"two_hosts", linked.back()}, {"ratio", linked.back() / local.back()}});
    fmt::print("{:8.0f}    {:8.0f}    {:5.2f}\n", local.back(), linked.back(), linked.back() / local.back());
    std::fflush(stdout);
  }
  report["examples_per_second"] = {{"one_host", spread(local)}, {"two_hosts", spread(linked)}};
  report["link"]["cores"] = spread(cores);
  report["prefetch"] = {{"one_host", kPrefetchHere}, {"two_hosts", kPrefetchThere}};
  report["test_loss"] = {{"one_host", spread(losses[0])}, {"two_hosts", spread(losses[1])}};
  const double apart = std::abs(median(losses[0]) - median(losses[1]));
  fmt::print("least test losses: medians {:.4f} and {:.4f}\n", median(losses[0]), median(losses[1]));
  const Estimate ratio = contest.speed("two_hosts", "one_host");
  report["ratio"] = {{"median", ratio.value}, {"low", ratio.low}, {"high", ratio.high}};
  report["targets"].push_back(target("hosts.deepfm_vs_local", ratio, 0.8));
  const bool fails = !options.quick && !(apart <= kFarthest);
  report["losses_apart"] = Json::array();
  if (fails)
    report["losses_apart"].push_back(fmt::format("test losses of the two sides are {:.4f} apart", apart));
  const int status = end_report(report, options);
  if (fails)
    fail(ErrorCode::kInternal, "the test losses of the two sides are {:.4f} apart, at most {} is allowed",
         apart, kFarthest);
  return status;
}

}  // namespace embers
