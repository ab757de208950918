// embers bench wire: pulls of 4096 int64 keys, 64 floats a row (1 MiB back), between two processes.
//
//   ours      an owner process (shard actor above an in-memory store of 16 384 rows, so that the wire and not
//             memory is measured) and a client whose actor asks through a proxy, as a worker does: each
//             request is built from its keys, each reply gathered from rows in random order; over the socket
//   shared    the same, but the replies are in memory that both processes share, as they are in a job's
//             processes of one host; the client reads every float of them
//   asio      the same frames between two bare Asio programs, ready-made (sockets.h)
//   blocking  the same with blocking send and recv
//   rows, rows2, chunked, chunked2, gather
//             bare servers that do what a server of rows cannot avoid: the limit
//   mapped    the same in memory that both processes share: the limit of shared
// over a Unix socket and over TCP, by one client or by two, each a process with a connection and 8 pulls
// outstanding. Bare programs have socket buffers of 64 KiB to 4 MiB, all sides both scheduling policies. All
// sides have the same rows; their replies are compared by checksum first, and their ends are looked at all
// the time. CPU per trip is that of all processes. Then the latencies of two clients of one server
// (latency.h).
//
//   wire.unix_vs_asio, wire.tcp_vs_asio   ours over the better of asio and blocking
//   wire.shared_vs_asio                   shared over the same, with Unix sockets
//   wire.p99_ms                           of pulls that are due at random moments, at 80 % of the capacity
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/processes.h"
#include "bench/wire/client.h"
#include "bench/wire/keys.h"
#include "bench/wire/latency.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr std::array kChunks{size_t{32} << 10, size_t{128} << 10, size_t{512} << 10};
const std::vector<std::string> kBare{"asio", "blocking"},
    kLimits{"rows", "rows2", "chunked", "chunked2", "gather"};
const std::string kMapped = "mapped";

struct Length {
  size_t tries, rounds, trips;
  double seconds;  // of latencies at one rate
  size_t latency_rounds;
};
const Length kFull{3, 31, 1000, 5, 5}, kQuick{1, 3, 200, 0.5, 1};

std::string address(const std::string& socket, const std::string& name) {
  return socket == "unix" ? fmt::format("unix:@embers-bench-{}-{}", ::getpid(), name) : "127.0.0.1:0";
}

// Processes that talk over sockets: a server, and clients of which the first one works, or all.
struct Side {
  std::string name;
  BenchChild server;
  std::vector<BenchChild> clients;

  void set(Policy policy) const {
    set_policy(server.processes(), policy);
    for (const BenchChild& client : clients) set_policy(client.processes(), policy);
  }
  double cpu_seconds() const {
    double seconds = server.cpu_seconds();
    for (const BenchChild& client : clients) seconds += client.cpu_seconds();
    return seconds;
  }
  Cost run(size_t working, size_t trips) {
    pull(working, trips / 10);
    const double begin = cpu_seconds();
    const double seconds = pull(working, trips);
    const auto n = static_cast<double>(trips);
    return {seconds / n, (cpu_seconds() - begin) / n};
  }
  void connect(const SocketSettings& settings) {
    server.ask(words_of(settings));
    for (BenchChild& client : clients) client.ask("connect " + words_of(settings));
  }

 private:
  // So many trips of all together; the seconds of who took longest.
  double pull(size_t working, size_t trips) {
    const auto at_work = std::span(clients).first(working);
    for (BenchChild& client : at_work) client.tell(fmt::format("pull {}", trips / working));
    double longest = 0;
    for (BenchChild& client : at_work) longest = std::max(longest, std::stod(client.answer()));
    return longest;
  }
};
constexpr size_t kClients = 2;

std::unique_ptr<Side> ours(const std::string& name, const std::string& socket) {
  const std::string rows = std::to_string(kWireRows);
  BenchChild server = BenchChild::part_of_embers({"owner", address(socket, name), "sgd", rows});
  std::vector<BenchChild> clients;
  for (size_t i = 0; i < kClients; ++i)
    clients.push_back(BenchChild::part_of_embers(
        {"client", server.ready(), "sgd", rows, name == "ours" ? "sockets" : "shared"}));
  clients.front().ask("set");
  return std::make_unique<Side>(Side{name, std::move(server), std::move(clients)});
}

std::unique_ptr<Side> bare(const std::string& kind, const std::string& socket) {
  BenchChild server = bare_server(kind, address(socket, kind));
  std::vector<BenchChild> clients;
  for (size_t i = 0; i < kClients; ++i) clients.push_back(bare_client(kind, server));
  auto side = std::make_unique<Side>(Side{kind, std::move(server), std::move(clients)});
  side->connect({});
  return side;
}

void add(
    Contest& contest, Side& side, size_t trips, const std::string& configuration = "",
    const std::function<void()>& prepare = [] {}) {
  for (size_t working = 1; working <= kClients; ++working)
    add_with_policies(
        contest, side.name, fmt::format("clients {}{}", working, configuration),
        [&](Policy policy) { side.set(policy); },
        [&side, working, trips, prepare] {
          prepare();
          return side.run(working, trips);
        });
}

void add_mapped(Contest& contest, Side& side, size_t trips) {
  for (const Stores stores : {Stores::kCached, Stores::kAround})
    add(contest, side, trips, stores == Stores::kAround ? ", around the caches" : "",
        [&side, stores] { side.connect({.stores = stores}); });
}

bool in_chunks(const Side& side) { return side.name.starts_with("chunked"); }

void add_bare(Contest& contest, Side& side, size_t trips) {
  for (const int buffer : kSocketBuffers)
    for (const size_t chunk : kChunks) {
      if (!in_chunks(side) && chunk != kChunks[0]) continue;
      const std::string of_chunks = in_chunks(side) ? fmt::format(", chunks {} KiB", chunk >> 10) : "";
      add(contest, side, trips, fmt::format(", buffers {} KiB{}", buffer >> 10, of_chunks),
          [&side, buffer, chunk] {
            side.connect({buffer, chunk});
          });
    }
}

void check_rows(const std::vector<std::unique_ptr<Side>>& sides) {
  const std::string wanted = sides.front()->clients.front().ask("check");
  const auto check = [&](Side& side) {
    for (BenchChild& client : side.clients)
      if (const std::string sums = client.ask("check"); sums != wanted)
        fail(ErrorCode::kInternal, "{} has sent other rows than {}: their checksums are {} and {}", side.name,
             sides.front()->name, sums, wanted);
  };
  for (const auto& side : sides) {
    if (!in_chunks(*side)) {
      check(*side);
      if (side->name != kMapped) continue;
      side->connect({.stores = Stores::kAround});
      check(*side);
      continue;
    }
    for (const size_t chunk : kChunks) {
      side->connect({SocketSettings().buffer_bytes, chunk});
      check(*side);
    }
  }
}

struct OnSocket {
  Json report;
  Estimate vs_bare, limit_vs_bare, vs_limit;
  Estimate shared_vs_bare, mapped_vs_bare, shared_vs_mapped;  // Unix sockets only
};

// Every side's figures over one kind of socket.
OnSocket measure(const std::string& socket, const Length& length) {
  std::vector<std::unique_ptr<Side>> sides;
  sides.push_back(ours("ours", socket));
  if (socket == "unix") sides.push_back(ours("shared", socket));
  for (const auto& kinds : {kBare, kLimits})
    for (const std::string& kind : kinds) sides.push_back(bare(kind, socket));
  if (socket == "unix") sides.push_back(bare(kMapped, socket));
  check_rows(sides);
  Contest contest;
  for (const auto& side : sides)
    if (side->name == kMapped)
      add_mapped(contest, *side, length.trips);
    else if (side->name == "ours" || side->name == "shared")
      add(contest, *side, length.trips);
    else
      add_bare(contest, *side, length.trips);
  contest.choose(length.tries);
  contest.measure(length.rounds);

  const std::string best_bare = contest.fastest(kBare), best_limit = contest.fastest(kLimits);
  OnSocket result{{{"socket", socket}, {"better_bare", best_bare}, {"sides", contest.json()}},
                  contest.speed("ours", best_bare),
                  contest.speed(best_limit, best_bare),
                  contest.speed("ours", best_limit),
                  {},
                  {},
                  {}};
  for (const auto& side : sides) {
    const double rate = 1 / contest.seconds(side->name).value;
    const double mib = kBenchKeys * kBenchDim * sizeof(float) * rate / (1 << 20);
    const double cpu_ms = contest.cpu_seconds(side->name).value * 1e3;
    result.report[side->name] = {{"trips_per_s", rate}, {"mib_per_s", mib}, {"cpu_ms_per_trip", cpu_ms}};
    result.report["vs_" + side->name] = contest.speed("ours", side->name).value;
    fmt::print("{:<5} {:<9} {:>8.0f} {:>8.2f} {:>8.3f}   {}\n", socket, side->name, rate, mib / 1024, cpu_ms,
               contest.configuration(side->name));
  }
  result.report["limit_vs_asio"] = result.limit_vs_bare.value;
  if (socket == "unix") {
    result.shared_vs_bare = contest.speed("shared", best_bare);
    result.mapped_vs_bare = contest.speed(kMapped, best_bare);
    result.shared_vs_mapped = contest.speed("shared", kMapped);
    result.report["shared_vs_mapped"] = result.shared_vs_mapped.value;
    result.report["shared_vs_asio"] = result.shared_vs_bare.value;
  }
  std::fflush(stdout);
  return result;
}

}  // namespace

int bench_wire(const BenchOptions& options) {
  Json report = begin_report("wire", options);
  const Length& length = options.quick ? kQuick : kFull;
  report["keys"] = kBenchKeys;
  report["dim"] = kBenchDim;
  report["outstanding"] = kBenchOutstanding;
  fmt::print("                trips/s    GiB/s   CPU ms a trip, of all processes\n");
  const OnSocket on_unix = measure("unix", length), on_tcp = measure("tcp", length);
  report["grid"] = {on_unix.report, on_tcp.report};
  const WireLatency latency = measure_wire_latency(length.seconds, length.latency_rounds);
  report["latency"] = latency.report;
  report["control_under_load"] = latency.control;
  report["limits"] = {limit("wire.unix", on_unix.vs_limit), limit("wire.tcp", on_tcp.vs_limit),
                      limit("wire.shared", on_unix.shared_vs_mapped)};
  report["targets"] = {target("wire.unix_vs_asio", on_unix.vs_bare, 0.95, on_unix.limit_vs_bare),
                       target("wire.tcp_vs_asio", on_tcp.vs_bare, 0.85, on_tcp.limit_vs_bare),
                       target("wire.shared_vs_asio", on_unix.shared_vs_bare, 1.5, on_unix.mapped_vs_bare),
                       target_at_most("wire.p99_ms", latency.p99_ms, 5)};
  return end_report(report, options);
}

}  // namespace embers
