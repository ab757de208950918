#include "bench/wire/latency.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <sstream>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/wire/control.h"
#include "bench/wire/keys.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr int kShares[] = {50, 80, 95};  // percent of the capacity
constexpr int kCounted = 80;             // that the target is about
constexpr size_t kWarmUp = 500;          // pulls

// An owner and its clients.
class TwoClients {
 public:
  explicit TwoClients(Policy policy)
      : owner_(BenchChild::part({"owner", fmt::format("unix:@embers-bench-{}-two", ::getpid()), "sgd",
                                 std::to_string(kWireRows)})) {
    for (int i = 0; i < 2; ++i)
      clients_.push_back(BenchChild::part({"client", owner_.ready(), "sgd", std::to_string(kWireRows)}));
    clients_[0].ask("set");
    set_policy(owner_.processes(), policy);
    for (const BenchChild& client : clients_) set_policy(client.processes(), policy);
  }
  const std::string& address() const { return owner_.ready(); }

  // Pulls a second of both together, each asking as soon as it is answered.
  double capacity(double seconds) {
    const double first = rate(kWarmUp);
    return rate(static_cast<size_t>(first * seconds / 2));
  }
  Latencies pull_at(double rate, double seconds) {
    for (BenchChild& client : clients_)
      client.tell(fmt::format("pull-at {} {}", rate / 2, static_cast<size_t>(rate / 2 * seconds)));
    Latencies all;
    for (BenchChild& client : clients_) {
      std::istringstream answer(client.answer());
      for (double ms; answer >> ms;) all.add(ms);
    }
    return all;
  }

 private:
  double rate(size_t trips) {
    for (BenchChild& client : clients_) client.tell(fmt::format("pull {}", trips));
    double longest = 0;
    for (BenchChild& client : clients_) longest = std::max(longest, std::stod(client.answer()));
    return 2 * static_cast<double>(trips) / longest;
  }

  BenchChild owner_;
  std::vector<BenchChild> clients_;
};

struct AtShare {
  std::vector<double> p50, p99, p999;  // ms, by round
  std::string histogram;               // of the last round
  void add(const Latencies& latencies) {
    p50.push_back(latencies.percentile(0.5));
    p99.push_back(latencies.percentile(0.99));
    p999.push_back(latencies.percentile(0.999));
    histogram = latencies.histogram();
  }
};

}  // namespace

WireLatency measure_wire_latency(Policy policy, double seconds, size_t rounds) {
  TwoClients two(policy);
  std::vector<AtShare> at(std::size(kShares));
  std::vector<double> capacities;
  Latencies control;
  for (size_t round = 0; round < rounds; ++round) {
    capacities.push_back(two.capacity(seconds));
    for (const size_t i : order_of_turn(at.size(), round)) {
      std::optional<ControlProbe> probe;
      if (kShares[i] == kCounted) probe.emplace(two.address());
      at[i].add(two.pull_at(capacities.back() * kShares[i] / 100, seconds));
      if (!probe) continue;
      const Latencies orders = probe->stop();
      for (const double ms : orders.all()) control.add(ms);
    }
  }
  WireLatency result;
  result.report["capacity"] = spread(capacities);
  for (size_t i = 0; i < at.size(); ++i) {
    result.report[std::to_string(kShares[i])] = {{"p50_ms", spread(at[i].p50)},
                                                 {"p99_ms", spread(at[i].p99)},
                                                 {"p99_9_ms", spread(at[i].p999)},
                                                 {"histogram", at[i].histogram}};
    if (kShares[i] == kCounted) result.p99_ms = median_estimate(at[i].p99);
    fmt::print("pulls of two clients at {} % of {:.0f} a second: p50 {:.2f} ms, p99 {:.2f}, p99.9 {:.2f}\n",
               kShares[i], median(capacities), median(at[i].p50), median(at[i].p99), median(at[i].p999));
  }
  const double p50 = control.percentile(0.5) * 1e3, p99 = control.percentile(0.99) * 1e3;
  result.control = {{"round_trips", control.size()}, {"p50_us", p50}, {"p99_us", p99}};
  fmt::print("orders at {} %: p50 {:.0f} us, p99 {:.0f} us\n", kCounted, p50, p99);
  return result;
}

}  // namespace embers
