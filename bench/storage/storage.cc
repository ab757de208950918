// embers bench storage, work item W: minibatches of 4096 distinct keys of 10 M, rows of 64 float32; pull,
// then push of gradients that the server applies with Adam. One client and one server process on this host,
// over a Unix socket; sides one after another, one in memory at a time, embers first and last. Keys come in a
// random order, each as often as the others. Rows a second; of every side the best of four measurements
// counts, which go through the listed configurations in turn.
//
//   embers      an owner process; a client that makes the worker's calls (plan, route, take rows, push), with
//               as many minibatches under way as a worker has with a training.prefetch of 2, the default, or
//               3
//   redis, memcached   a client that updates (store_client.h), one or two threads; `alone`: its pushes
//               trust what it pulled, as only a server's sole client may
//   torch rpc   torch.distributed.rpc, SparseAdam at the server; 1 to 3 minibatches under way, 1 or 2 threads
//   torch local nn.Embedding(sparse=True) and SparseAdam in one process, one or two threads
// Targets compare with Redis and memcached that read each row once (`alone`).
// Limits, measured in the same run: embers' actors in one process, without a socket; and blocking sockets
// that move the bytes of a pull and a push, and nothing else.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/processes.h"
#include "bench/storage/store_client.h"
#include "bench/storage/torch_script.h"
#include "bench/wire/keys.h"
#include "bench/wire/sockets.h"

namespace embers {
namespace {

using Json = nlohmann::json;

constexpr size_t kTimes = 4;  // measurements of a side; half of embers' before the peers, half after
const std::vector<std::string> kDepths{"3", "4"};  // of embers: training.prefetch 2, the default, and 3
constexpr uint64_t kRowBytes = 3 * kBenchDim * sizeof(float);

struct Item {
  int64_t rows;
  double seconds;  // of each measurement
};

std::string unix_path(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("embers-bench-{}-{}", ::getpid(), name))
      .string();
}

// The best of this many answers of a client to these questions in turn, each of which is first asked briefly
// to warm up.
double best(BenchChild& client, const Item& work, const std::string& before,
            const std::vector<std::string>& after, size_t times = kTimes) {
  double most = 0;
  for (size_t i = 0; i < times; ++i) {
    const std::string& words = after[i % after.size()];
    if (i < after.size()) client.ask(fmt::format("{}{} {}", before, work.seconds / 8, words));
    most = std::max(most, std::stod(client.ask(fmt::format("{}{} {}", before, work.seconds, words))));
  }
  return most;
}

// The best rate of a client with each of the depths.
double best_of_ours(BenchChild& client, const Item& work) {
  const auto minibatches = static_cast<size_t>(work.seconds * 500);
  double most = 0;
  for (const std::string& depth : kDepths) {
    client.ask(fmt::format("train {} {}", minibatches / 8, depth));
    const double seconds = std::stod(client.ask(fmt::format("train {} {}", minibatches, depth)));
    most = std::max(most, static_cast<double>(minibatches * kBenchKeys) / seconds);
  }
  return most;
}

double ours(const Item& work) {
  const std::string rows = std::to_string(work.rows);
  const BenchChild server =
      BenchChild::part({"owner", fmt::format("unix:@embers-bench-{}", ::getpid()), "adam", rows});
  BenchChild client = BenchChild::part({"client", server.ready(), "adam", rows});
  set_policy(server.processes(), Policy::kBatch);
  set_policy(client.processes(), Policy::kBatch);
  return best_of_ours(client, work);
}

double ours_in_one_process(const Item& work) {
  BenchChild client = BenchChild::part({"client", "local", "adam", std::to_string(work.rows)});
  set_policy(client.processes(), Policy::kBatch);
  return best_of_ours(client, work);
}

double sockets_only(const Item& work) {
  const size_t keys = kBenchKeys, rows = kBenchKeys * kBenchDim / 2;  // words
  const std::string there = std::to_string(2 * keys + rows), back = std::to_string(rows);
  const std::string address = fmt::format("unix:@embers-bench-{}-sockets", ::getpid());
  BenchChild server = BenchChild::part({"sockets", "blocking", address, there, back, "2"});
  BenchChild client = BenchChild::part({"socket-client", "blocking", address, there, back, "2"});
  const auto trips = static_cast<size_t>(work.seconds * 1000);
  client.ask("connect 4194304 65536");
  client.ask(fmt::format("pull {}", trips / 8));
  return static_cast<double>(trips * kBenchKeys) / std::stod(client.ask(fmt::format("pull {}", trips)));
}

// Its figures when pushes read rows anew, and when they do not.
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
  return best(client, work, "", {"1 1", "1 2"});
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
  Json report = begin_report("storage", options, options.quick ? "quick" : "");
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
  note("embers", ours(work));
  for (const std::string kind : {"redis", "memcached"})
    try_peer(kind, [&] {
      const auto [rate, alone] = store(kind, work);
      note(kind, rate);
      note(kind + "_alone", alone);
    });
  try_peer("torch_rpc", [&] { note("torch_rpc", torch_rpc(work)); });
  try_peer("torch_local", [&] { note("torch_local", torch_local(work)); });
  note("embers_again", ours(work));
  note("limit_without_sockets", ours_in_one_process(work));
  note("limit_sockets_only", sockets_only(work));

  const double mine = std::max(rates["embers"].get<double>(), rates["embers_again"].get<double>());
  report["targets"] = Json::array();
  for (const auto& [peer, wanted] : std::vector<std::pair<std::string, double>>{
           {"redis", 7}, {"memcached", 9}, {"torch_rpc", 5}, {"torch_local", 1.5}}) {
    const std::string side = rates.contains(peer + "_alone") ? peer + "_alone" : peer;
    if (rates.contains(side))
      report["targets"].push_back(target("storage.vs_" + peer, mine / rates[side].get<double>(), wanted));
  }
  return end_report(report, options);
}

}  // namespace embers
