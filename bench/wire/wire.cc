// embers bench wire: pulls of 4096 int64 keys, 64 floats a row (1 MiB back), between two processes.
//
//   ours      an owner process (shard actor above an in-memory store of 16 384 rows, so that the wire and not
//             memory is measured) and a client whose actor asks through a proxy, as a worker does: each
//             request is built from its keys, each reply gathered from rows in random order; over the socket
//   shared    the same, but the replies are in memory that both processes share, as they are in a job's
//             processes of one host; the client reads every float of them
//   asio      the same frames between two bare Asio programs, ready-made (sockets.h)
//   blocking  the same with blocking send and recv
//   rows, rows2  asio, but the server copies every row into its reply: the limit, since a bare program never
//   does
// over a Unix socket and over TCP, 8 pulls outstanding. The sides take turns; a ratio is the median of the
// rounds'. CPU per trip is that of both processes. Then the latencies of two clients of one owner at once,
// each with 8 outstanding, over Unix sockets, and meanwhile those of orders to that owner.
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/wire/control.h"
#include "bench/wire/owner.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr int64_t kRows = kBenchMinibatches * kBenchKeys;

TripSize trip_size() {
  const std::vector<int64_t> keys(kBenchKeys);
  const TableSlices slices{0, {KeyKind::kInt64, keys, {}, {}}, 0, {}};
  const RowsShape shape{0, kBenchDim, kBenchKeys};
  return {make_pull({}, wire::ReadMode::LATEST, false, {&slices, 1}).words().size(),
          make_pull_reply(0, {&shape, 1}, [](size_t, std::span<float>) {}).words().size()};
}

std::string address(const std::string& socket, const std::string& name) {
  return socket == "unix" ? fmt::format("unix:@embers-bench-{}-{}", ::getpid(), name) : "127.0.0.1:0";
}

// Two processes that talk over a socket.
struct Side {
  std::string name;
  BenchChild server, client;
  std::string question;            // to the client, before the number of trips
  std::vector<double> rates, cpu;  // trips/s, CPU ms a trip of both, by round

  void run(size_t trips) {
    const double begin = server.cpu_seconds() + client.cpu_seconds();
    const double seconds = std::stod(client.ask(question + std::to_string(trips)));
    cpu.push_back((server.cpu_seconds() + client.cpu_seconds() - begin) / static_cast<double>(trips) * 1e3);
    rates.push_back(static_cast<double>(trips) / seconds);
  }
};

Side ours(const std::string& name, const std::string& socket) {
  const std::string rows = std::to_string(kRows);
  BenchChild server = BenchChild::part({"owner", address(socket, name), "sgd", rows});
  BenchChild client = BenchChild::part({"client", server.ready(), rows, name == "ours" ? "sockets" : ""});
  return {name, std::move(server), std::move(client), "pull ", {}, {}};
}

Side bare(const std::string& kind, const std::string& socket) {
  const TripSize size = trip_size();
  const std::string request = std::to_string(size.request_words), reply = std::to_string(size.reply_words);
  BenchChild server = BenchChild::part({"sockets", kind, address(socket, kind), request, reply});
  BenchChild client = BenchChild::part(
      {"socket-client", kind, server.ready(), request, reply, std::to_string(kBenchOutstanding)});
  return {kind, std::move(server), std::move(client), "", {}, {}};
}

// Every side's figures over one kind of socket.
Json measure(const std::string& socket, int rounds, size_t trips) {
  std::vector<Side> sides;
  sides.push_back(ours("ours", socket));
  for (const char* const kind : {"asio", "blocking", "rows", "rows2"}) sides.push_back(bare(kind, socket));
  if (socket == "unix") sides.push_back(ours("shared", socket));
  for (Side& side : sides) side.client.ask(side.question + std::to_string(trips / 4 + 1));  // warms up
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < sides.size(); ++i) sides[round % 2 ? sides.size() - 1 - i : i].run(trips);
  Json json{{"socket", socket}};
  for (const Side& side : sides) {
    const double mib = 1.0 * kBenchKeys * kBenchDim * sizeof(float) * median(side.rates) / (1 << 20);
    json[side.name] = {
        {"trips_per_s", median(side.rates)}, {"mib_per_s", mib}, {"cpu_ms_per_trip", median(side.cpu)}};
    fmt::print("{:<5} {:<9} {:>8.0f} {:>8.2f} {:>8.3f}\n", socket, side.name, median(side.rates), mib / 1024,
               median(side.cpu));
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round) ratios.push_back(sides[0].rates[round] / side.rates[round]);
    json["vs_" + side.name] = median(ratios);
  }
  std::vector<double> limits;  // the better of the two, as a share of asio's rate
  for (int round = 0; round < rounds; ++round)
    limits.push_back(std::max(sides[3].rates[round], sides[4].rates[round]) / sides[1].rates[round]);
  json["limit_vs_asio"] = median(limits);
  if (socket == "unix") {
    std::vector<double> ratios;
    for (int round = 0; round < rounds; ++round)
      ratios.push_back(sides.back().rates[round] / sides[1].rates[round]);
    json["shared_vs_asio"] = median(ratios);
  }
  std::fflush(stdout);
  return json;
}

struct UnderLoad {
  Latencies pulls, control;
};

// Latencies of both clients' pulls while both pull, and of control messages meanwhile.
UnderLoad latencies_of_two(size_t trips) {
  const std::string rows = std::to_string(kRows);
  const BenchChild server = BenchChild::part({"owner", address("unix", "two"), "sgd", rows});
  std::vector<BenchChild> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(BenchChild::part({"client", server.ready(), rows}));
  UnderLoad latencies;
  std::optional<ControlProbe> probe;
  for (const bool counts : {false, true}) {
    for (BenchChild& client : clients) client.tell(fmt::format("pull {}", counts ? trips : trips / 4 + 1));
    if (counts) probe.emplace(server.ready());
    for (BenchChild& client : clients) {
      std::istringstream answer(client.answer());
      double seconds = 0;
      answer >> seconds;
      for (double ms; counts && answer >> ms;) latencies.pulls.add(ms);
      if (counts) latencies.control = probe->stop();  // as soon as one of them is done
    }
  }
  return latencies;
}

}  // namespace

int bench_wire(const BenchOptions& options) {
  Json report = begin_report("wire", options);
  const int rounds = options.quick ? 3 : 9;
  const size_t trips = options.quick ? 500 : 2000;
  report["keys"] = kBenchKeys;
  report["dim"] = kBenchDim;
  report["outstanding"] = kBenchOutstanding;
  fmt::print("                trips/s    GiB/s   CPU ms a trip, of both processes\n");
  for (const char* const socket : {"unix", "tcp"}) report["grid"].push_back(measure(socket, rounds, trips));
  const auto [latencies, control] = latencies_of_two(trips * 4);
  const double p50 = latencies.percentile(0.5), p99 = latencies.percentile(0.99);
  report["latency"] = {
      {"pulls", latencies.size()}, {"p50_ms", p50}, {"p99_ms", p99}, {"histogram", latencies.histogram()}};
  fmt::print("\npulls of two clients at once: p50 {:.2f} ms, p99 {:.2f} ms\n{}\n", p50, p99,
             latencies.histogram());
  const double control_p50 = control.percentile(0.5) * 1e3, control_p99 = control.percentile(0.99) * 1e3;
  report["control_under_load"] = {
      {"round_trips", control.size()}, {"p50_us", control_p50}, {"p99_us", control_p99}};
  fmt::print("control messages meanwhile: p50 {:.0f} us, p99 {:.0f} us\n\n", control_p50, control_p99);
  const auto vs_asio = [&](const char* name, const Json& socket) {
    return target(name, socket["vs_asio"].get<double>(), 0.9, socket["limit_vs_asio"].get<double>());
  };
  report["targets"] = {vs_asio("wire.unix_vs_asio", report["grid"][0]),
                       vs_asio("wire.tcp_vs_asio", report["grid"][1]),
                       target("wire.shared_vs_asio", report["grid"][0]["shared_vs_asio"].get<double>(), 1.5),
                       target_at_most("wire.p99_over_p50", p99 / p50, 5)};
  return end_report(report, options);
}

}  // namespace embers
