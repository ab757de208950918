#include "bench/storage/store_client.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <thread>

#include "bench/harness/bench.h"
#include "bench/storage/store_connection.h"
#include "bench/wire/checked_rows.h"
#include "bench/wire/keys.h"
#include "bench/wire/replay.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

using KeySpan = StoreConnection::KeySpan;

// Trains with a connection of its own.
class AdamClient {
 public:
  AdamClient(std::string_view protocol, const std::string& path)
      : connection_(connect_store(protocol, path, kStoredNumbers)) {}

  void fill(KeySpan keys) {
    std::vector<float> value(kStoredNumbers);
    std::fill_n(value.begin(), kBenchDim, kCheckedStart);
    connection_->fill(keys, keys.size(), value);
  }
  void train(KeySpan keys, size_t chunk) {
    const storage::UpdateKernel kernel = next_step();
    connection_->update(keys, chunk,
                        [&](size_t, std::span<float> value) { apply(kernel, value, gradient_); });
  }
  uint64_t step() const { return step_; }  // of the last train()
  std::vector<float> check_rows(int64_t first) {
    const std::vector<int64_t> keys = checked_keys(first);
    fill(keys);
    for (int step = 0; step < kCheckedSteps; ++step) {
      const storage::UpdateKernel kernel = next_step();
      connection_->update(keys, keys.size(), [&](size_t i, std::span<float> value) {
        apply(kernel, value, checked_gradient(i));
      });
    }
    return read(keys);
  }
  std::vector<float> read(KeySpan keys) {
    std::vector<float> rows;
    connection_->read(keys, keys.size(), [&](size_t, std::span<const float> value) {
      rows.insert(rows.end(), value.begin(), value.begin() + kBenchDim);
    });
    return rows;
  }
  std::vector<float> lap(const KeyMinibatches& minibatches, size_t first, size_t count, Replay& replay) {
    constexpr size_t kChunks[] = {128, 512, kBenchKeys};
    for (size_t i = first; i < first + count; ++i) {
      train(minibatches[i], kChunks[i % std::size(kChunks)]);
      replay.trained(false, i, step());
    }
    std::vector<float> ways;
    for (size_t i = first; i < first + count; ++i) ways.push_back(way_of(read(minibatches[i])));
    return ways;
  }

 private:
  storage::UpdateKernel next_step() { return adam_->kernel({++step_, kCheckedRate}); }
  static void apply(const storage::UpdateKernel& kernel, std::span<float> value,
                    std::span<const float> gradient) {
    kernel(value.first(kBenchDim), value.subspan(kBenchDim), gradient);
  }

  const std::unique_ptr<StoreConnection> connection_;
  const std::unique_ptr<const storage::UpdateRule> adam_ = storage::UpdateRule::make({"adam", {}});
  const std::vector<float> gradient_ = std::vector<float>(kBenchDim, kTimedGradient);
  uint64_t step_ = 0;
};

}  // namespace

BenchChild start_store(const std::string& kind, const std::string& path, uint64_t memory_mb,
                       const std::string& options) {
  // Both in huge pages, as ours are: by jemalloc and by -L. They end with the shell below, even if it is
  // killed.
  const std::string command =
      "setpriv --pdeathsig KILL env " +
      (kind == "redis"
           ? fmt::format(
                 "MALLOC_CONF=thp:always redis-server --port 0 --unixsocket {} --save '' --appendonly no "
                 "--disable-thp no --maxmemory {}mb --maxmemory-policy noeviction --dir /tmp {}",
                 path, memory_mb, options)
           : fmt::format("memcached -s {} -M -L -m {} {} {}", path, memory_mb, options,
                         ::geteuid() == 0 ? "-u root" : ""));
  // A shell that waits for the socket, and ends the server when its input ends.
  return BenchChild({"sh", "-c",
                     fmt::format("{} >/dev/null 2>&1 & server=$!\n"
                                 "while [ ! -S {} ]; do kill -0 $server || exit 1; sleep 0.05; done\n"
                                 "echo ready\\ ; cat >/dev/null; kill -9 $server; rm -f {}",
                                 command, path, path)});
}

std::vector<std::string> store_settings(const std::string& kind, int64_t rows) {
  if (kind == "redis")
    return {"--io-threads 1", "--io-threads 2", "--io-threads 2 --io-threads-do-reads yes"};
  int hash_power = 16;
  while ((int64_t{1} << hash_power) < 2 * rows) ++hash_power;
  const std::string hash =
      fmt::format("-R 1000 -o hashpower={},no_lru_crawler,no_lru_maintainer", hash_power);
  return {"-t 2", "-t 1 " + hash, "-t 2 " + hash};
}

void run_store_client(const std::vector<std::string>& words) {
  const int64_t rows = std::stol(words.at(3));
  const KeyMinibatches uniform(rows), zipf = KeyMinibatches::zipf(rows);
  std::map<std::string_view, std::vector<std::unique_ptr<AdamClient>>> clients_of;  // by protocol
  for (const std::string_view protocol : store_protocols(words.at(1)))
    for (size_t i = 0; i < kMostStoreThreads; ++i)
      clients_of[protocol].push_back(std::make_unique<AdamClient>(protocol, words.at(2)));
  AdamClient& first_client = *clients_of.begin()->second.front();
  std::vector<int64_t> keys;
  for (int64_t begin = 0; begin < rows; begin += kBenchKeys) {
    keys.resize(static_cast<size_t>(std::min<int64_t>(kBenchKeys, rows - begin)));
    std::iota(keys.begin(), keys.end(), begin);
    first_client.fill(keys);
  }
  Replay replay(uniform, zipf);
  std::atomic<size_t> next = 0;
  answer_lines("", [&](const std::string& line) {
    std::istringstream in(line);
    std::string what, drawn;
    in >> what;
    if (what == "check") {
      int64_t first = 0;
      std::string protocol;
      in >> first >> protocol;
      return text_of(clients_of.at(protocol).front()->check_rows(first));
    }
    if (what == "lap") {
      size_t first = 0, count = 0;
      std::string protocol;
      in >> first >> count >> protocol;
      return text_of(clients_of.at(protocol).front()->lap(uniform, first, count, replay));
    }
    if (what == "replayed") return replay.answer([&](KeySpan of) { return first_client.read(of); });
    double seconds = 0;
    size_t count = 1, chunk = kBenchKeys;
    std::string protocol;
    in >> seconds >> count >> chunk >> protocol >> drawn;
    const auto& clients = clients_of.at(protocol);
    const bool by_zipf = drawn == "zipf";
    const KeyMinibatches& minibatches = by_zipf ? zipf : uniform;
    using Trained = std::vector<std::pair<size_t, uint64_t>>;  // minibatch, step of its client
    std::vector<Trained> trained(count);
    const size_t first = next;
    const auto begin = BenchClock::now();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        while (seconds_since(begin) < seconds) {
          const size_t minibatch = next++;
          clients.at(i)->train(minibatches[minibatch], chunk);
          trained[i].emplace_back(minibatch, clients.at(i)->step());
        }
      });
    for (std::thread& thread : threads) thread.join();
    const double took = seconds_since(begin);
    Trained all;
    for (const Trained& of_thread : trained) all.insert(all.end(), of_thread.begin(), of_thread.end());
    std::ranges::sort(all);
    for (const auto& [minibatch, step] : all) replay.trained(by_zipf, minibatch, step);
    return fmt::format("{}", static_cast<double>((next - first) * kBenchKeys) / took);
  });
}

}  // namespace embers
