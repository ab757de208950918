#include "bench/wire/latency.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/wire/control.h"
#include "bench/wire/keys.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr int kShares[] = {50, 80, 95};  // percent of the capacity
constexpr int kCounted = 80;             // that the target is about
constexpr size_t kWarmUp = 500;          // pulls

// A server and its clients.
class TwoClients {
 public:
  // Both with the settings with which they pull most, of three tries of so many seconds each.
  static TwoClients of_owner(double seconds) {
    TwoClients two(BenchChild::part_of_embers({"owner", socket("two"), "sgd", std::to_string(kWireRows)}));
    for (int i = 0; i < 2; ++i)
      two.clients_.push_back(
          BenchChild::part_of_embers({"client", two.address(), "sgd", std::to_string(kWireRows)}));
    two.clients_[0].ask("set");
    std::vector<std::function<void()>> settings;
    for (const Policy policy : kPolicies) settings.push_back([&two, policy] { two.set(policy); });
    two.choose(settings, seconds);
    return two;
  }
  static TwoClients of_bare(const std::string& kind, double seconds) {
    TwoClients two(bare_server(kind, socket("two-bare")));
    for (int i = 0; i < 2; ++i) two.clients_.push_back(bare_client(kind, two.server_));
    std::vector<std::function<void()>> settings;
    for (const Policy policy : kPolicies)
      for (const int buffer : kSocketBuffers)
        settings.push_back([&two, policy, buffer] { two.connect(policy, {buffer}); });
    two.choose(settings, seconds);
    return two;
  }
  const std::string& address() const { return server_.ready(); }

  // Pulls a second of both together, each asking as soon as it is answered.
  double capacity(double seconds) {
    const double first = rate(kWarmUp);
    return rate(static_cast<size_t>(first * seconds / 2));
  }
  Latencies pull_at(double rate, double seconds, uint64_t seed) {
    for (size_t i = 0; i < clients_.size(); ++i)
      clients_[i].tell(fmt::format("pull-at {} {} {}", rate / 2, static_cast<size_t>(rate / 2 * seconds),
                                   clients_.size() * seed + i));
    Latencies all;
    for (BenchChild& client : clients_) {
      std::istringstream answer(client.answer());
      for (double ms; answer >> ms;) all.add(ms);
    }
    return all;
  }

 private:
  explicit TwoClients(BenchChild server) : server_(std::move(server)) {}
  static std::string socket(const std::string& name) {
    return fmt::format("unix:@embers-bench-{}-{}", ::getpid(), name);
  }
  void set(Policy policy) {
    set_policy(server_.processes(), policy);
    for (const BenchChild& client : clients_) set_policy(client.processes(), policy);
  }
  void connect(Policy policy, const SocketSettings& settings) {
    set(policy);  // the server's threads for new connections inherit it
    server_.ask(words_of(settings));
    for (BenchChild& client : clients_) client.ask("connect " + words_of(settings));
  }
  void choose(const std::vector<std::function<void()>>& settings, double seconds) {
    constexpr size_t kTries = 3;
    std::vector<std::vector<double>> capacities(settings.size());
    for (size_t turn = 0; turn < kTries; ++turn)
      for (const size_t i : order_of_turn(settings.size(), turn)) {
        settings[i]();
        capacities[i].push_back(capacity(seconds));
      }
    const auto best = std::max_element(capacities.begin(), capacities.end(),
                                       [](const auto& a, const auto& b) { return median(a) < median(b); });
    settings[static_cast<size_t>(best - capacities.begin())]();
  }
  double rate(size_t trips) {
    for (BenchChild& client : clients_) client.tell(fmt::format("pull {}", trips));
    double longest = 0;
    for (BenchChild& client : clients_) longest = std::max(longest, std::stod(client.answer()));
    return 2 * static_cast<double>(trips) / longest;
  }

  BenchChild server_;
  std::vector<BenchChild> clients_;
};

class AtShare {
 public:
  void add(const Latencies& latencies) {
    p50_.push_back(latencies.percentile(0.5));
    p99_.push_back(latencies.percentile(0.99));
    p999_.push_back(latencies.percentile(0.999));
    histogram_ = latencies.histogram();
  }
  Estimate p99() const { return median_estimate(p99_); }
  Json json() const {
    return {{"p50_ms", spread(p50_)},
            {"p99_ms", spread(p99_)},
            {"p99_9_ms", spread(p999_)},
            {"histogram", histogram_}};
  }
  std::string text() const {
    return fmt::format("p50 {:.2f} ms, p99 {:.2f}, p99.9 {:.2f}", median(p50_), median(p99_), median(p999_));
  }

 private:
  std::vector<double> p50_, p99_, p999_;  // ms, by round
  std::string histogram_;                 // of the last round
};

// What one server's clients got.
struct Side {
  std::string name;
  TwoClients two;
  std::vector<double> capacities = {};  // pulls a second, by round
  std::vector<AtShare> at = std::vector<AtShare>(std::size(kShares));

  // `orders`: those of a master to the server, at kCounted, while pulls go on.
  void measure(double seconds, size_t round, Latencies* orders) {
    capacities.push_back(two.capacity(seconds));
    for (const size_t i : order_of_turn(at.size(), round)) {
      std::optional<ControlProbe> probe;
      if (orders != nullptr && kShares[i] == kCounted) probe.emplace(two.address());
      at[i].add(two.pull_at(capacities.back() * kShares[i] / 100, seconds, round * at.size() + i));
      if (!probe) continue;
      const Latencies of_probe = probe->stop();
      for (const double ms : of_probe.all()) orders->add(ms);
    }
  }
  Json json() const {
    Json report{{"capacity", spread(capacities)}};
    for (size_t i = 0; i < at.size(); ++i) {
      report[std::to_string(kShares[i])] = at[i].json();
      fmt::print("two clients of {} at {} % of {:.0f} pulls a second: {}\n", name, kShares[i],
                 median(capacities), at[i].text());
    }
    return report;
  }
};

}  // namespace

WireLatency measure_wire_latency(double seconds, size_t rounds) {
  const double of_try = std::min(seconds, 0.5);
  Side ours{"embers", TwoClients::of_owner(of_try)},
      bare{"blocking", TwoClients::of_bare("blocking", of_try)};
  Latencies control;
  AtShare same;  // ours, at the rate of kCounted of the bare program
  for (size_t round = 0; round < rounds; ++round)
    for (const size_t side : order_of_turn(2, round)) {
      if (side == 0) {
        bare.measure(seconds, round, nullptr);
        continue;
      }
      ours.measure(seconds, round, &control);
      same.add(ours.two.pull_at(bare.capacities.back() * kCounted / 100, seconds, round));
    }
  WireLatency result;
  result.report = ours.json();
  result.report["blocking"] = bare.json();
  result.report["at_80_of_blocking"] = same.json();
  fmt::print("two clients of {} at {} % of {:.0f} pulls a second: {}\n", ours.name, kCounted,
             median(bare.capacities), same.text());
  for (size_t i = 0; i < std::size(kShares); ++i)
    if (kShares[i] == kCounted) result.p99_ms = ours.at[i].p99();
  const double p50 = control.percentile(0.5) * 1e3, p99 = control.percentile(0.99) * 1e3;
  result.control = {{"round_trips", control.size()}, {"p50_us", p50}, {"p99_us", p99}};
  fmt::print("orders at {} %: p50 {:.0f} us, p99 {:.0f} us\n", kCounted, p50, p99);
  return result;
}

}  // namespace embers
