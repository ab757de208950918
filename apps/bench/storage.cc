// embers bench storage, work item W: minibatches of 4096 distinct keys of 10 M, rows of 64 float32; pull,
// then push of gradients that the server applies with Adam. One client and one server process on this host,
// over a Unix socket; sides one after another, one in memory at a time, embers first and last. Keys come in a
// random order, each as often as the others. Rows a second; of a peer the best of the ways listed.
//
//   embers      a server process with one owner or two (embers shard --owners); a client that makes the
//   worker's
//               calls (plan, route, take rows, push), with kDepth minibatches under way, as many as a worker
//               has with the default training.prefetch
//   redis, memcached   a client that updates (store_client.h), one or two threads; `alone`: its pushes
//               trust what it pulled, as only the one client of a server may
//   torch rpc   torch.distributed.rpc, SparseAdam at the server; 1 to 3 minibatches under way, 1 or 2 threads
//   torch local nn.Embedding(sparse=True) and SparseAdam in one process, two threads
// Limits, measured in the same run: embers' actors in one process, without a socket; and blocking sockets
// that move the bytes of a pull and a push, and nothing else.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "apps/bench/bench.h"
#include "apps/bench/child.h"
#include "apps/bench/owner.h"
#include "apps/bench/sockets.h"
#include "apps/bench/store_client.h"
#include "apps/bench/torch.h"
#include "schema/errors.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kDepth = 3;
// Of the server process.
constexpr std::array<std::pair<size_t, const char*>, 2> kOwners{
    {{1, "embers_one_owner"}, {2, "embers_two_owners"}}};
constexpr uint64_t kRowBytes = 3 * kBenchDim * sizeof(float);

struct Item {
  int64_t rows;
  double seconds;  // of each measurement
};

std::string unix_path(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("embers-bench-{}-{}", ::getpid(), name))
      .string();
}

// The best answer of a client to these questions, each asked once before for a moment to warm up.
double best(BenchChild& client, const Item& work, const std::string& before,
            const std::vector<std::string>& after) {
  double most = 0;
  for (const std::string& words : after) {
    client.ask(fmt::format("{}{} {}", before, work.seconds / 8, words));
    most = std::max(most, std::stod(client.ask(fmt::format("{}{} {}", before, work.seconds, words))));
  }
  return most;
}

double ours(const Item& work, size_t owners) {
  const std::string rows = std::to_string(work.rows);
  std::vector<std::string> serve{"owners", "adam", rows}, connect{"client", rows, std::to_string(owners)};
  for (size_t i = 0; i < owners; ++i) {
    const std::string address = fmt::format("unix:@embers-bench-{}-{}", ::getpid(), i);
    serve.push_back(address);
    connect.push_back(address);
  }
  const BenchChild server = BenchChild::part(serve);
  BenchChild client = BenchChild::part(connect);
  return best(client, work, "train ", {std::to_string(kDepth)});
}

double ours_in_one_process(const Item& work, size_t owners) {
  BenchChild client = BenchChild::part({"client", std::to_string(work.rows), std::to_string(owners)});
  return best(client, work, "train ", {std::to_string(kDepth)});
}

double sockets_only(const Item& work) {
  const size_t keys = kBenchKeys, rows = kBenchKeys * kBenchDim / 2;  // words
  const std::string there = std::to_string(2 * keys + rows), back = std::to_string(rows);
  const std::string address = fmt::format("unix:@embers-bench-{}-sockets", ::getpid());
  const BenchChild server = BenchChild::part({"sockets", "blocking", address, there, back});
  BenchChild client = BenchChild::part({"socket-client", "blocking", address, there, back, "2"});
  const auto trips = static_cast<size_t>(work.seconds * 1000);
  client.ask(std::to_string(trips / 8));
  return static_cast<double>(trips * kBenchKeys) / std::stod(client.ask(std::to_string(trips)));
}

// Its figures when pushes read anew, and when they do not.
std::pair<double, double> store(const std::string& kind, const Item& work) {
  const std::string path = unix_path(kind);
  const uint64_t mb = (static_cast<uint64_t>(work.rows) * (kRowBytes + 256) >> 20) + 256;
  const BenchChild server = start_store(kind, path, mb);
  BenchChild client = BenchChild::part({"store-client", kind, path, std::to_string(work.rows)});
  return {best(client, work, "", {"1", "2"}), best(client, work, "", {"1 alone", "2 alone"})};
}

std::vector<std::string> torch(const std::string& kind, const Item& work) {
  return {"/usr/bin/python3", "-c", kTorchScript, kind, std::to_string(work.rows)};
}

double torch_local(const Item& work) {
  BenchChild client(torch("local", work));
  return best(client, work, "", {"1 2"});
}

double torch_rpc(const Item& work) {
  const auto process = [&](const std::string& rank) {
    auto words = torch("rpc", work);
    words.insert(words.end(), {rank, std::to_string(20000 + ::getpid() % 20000)});
    return BenchChild(words);
  };
  const BenchChild server = process("1");
  BenchChild client = process("0");
  return best(client, work, "", {"1 1", "2 1", "3 1", "2 2"});
}

}  // namespace

int bench_storage(const BenchOptions& options) {
  Json report = begin_report("storage", options);
  const Item work{options.quick ? std::min<int64_t>(options.rows, 500'000) : options.rows,
                  options.quick ? 1.0 : 5.0};
  report["rows"] = work.rows;
  report["keys"] = kBenchKeys;
  report["dim"] = kBenchDim;
  fmt::print("million rows/s, pulled and pushed, of {} rows\n", work.rows);
  Json& rates = report["rows_per_s"];
  const auto note = [&](const std::string& name, double rate) {
    rates[name] = rate;
    fmt::print("{:<24} {:8.3f}\n", name, rate / 1e6);
    std::fflush(stdout);
  };
  const auto try_peer = [&](const std::string& name, const std::function<void()>& measure) {
    try {
      measure();
    } catch (const Error& e) {
      report["left_out"][name] = e.what();
      fmt::print("{:<24} left out: {}\n", name, e.what());
    }
  };
  const auto note_ours = [&](const std::string& again) {
    for (const auto& [owners, name] : kOwners) note(name + again, ours(work, owners));
  };
  note_ours("");
  for (const std::string kind : {"redis", "memcached"})
    try_peer(kind, [&] {
      const auto [rate, alone] = store(kind, work);
      note(kind, rate);
      note(kind + "_alone", alone);
    });
  try_peer("torch_rpc", [&] { note("torch_rpc", torch_rpc(work)); });
  try_peer("torch_local", [&] { note("torch_local", torch_local(work)); });
  note_ours("_again");
  double limit = 0;
  for (const auto& [owners, name] : kOwners) limit = std::max(limit, ours_in_one_process(work, owners));
  note("limit_without_sockets", limit);
  note("limit_sockets_only", sockets_only(work));

  double mine = 0;
  for (const auto& [owners, name] : kOwners)
    mine =
        std::max(mine, (rates[name].get<double>() + rates[name + std::string("_again")].get<double>()) / 2);
  report["targets"] = Json::array();
  for (const auto& [peer, wanted] : std::vector<std::pair<std::string, double>>{
           {"redis", 12}, {"memcached", 8}, {"torch_rpc", 5}, {"torch_local", 1.6}})
    if (rates.contains(peer))
      report["targets"].push_back(target("storage.vs_" + peer, mine / rates[peer].get<double>(), wanted));
  end_report(report, options);
  return 0;
}

}  // namespace embers
