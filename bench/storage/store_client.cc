#include "bench/storage/store_client.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <sstream>
#include <thread>

#include "bench/harness/bench.h"
#include "bench/storage/raw_clients.h"
#include "bench/wire/keys.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

constexpr size_t kRowBytes = kBenchDim * sizeof(float);
constexpr size_t kSlots = 2;  // of Adam, in rows

std::string start_command(const std::string& kind, const std::string& path, uint64_t memory_mb) {
  if (kind == "redis")
    return fmt::format(
        "redis-server --port 0 --unixsocket {} --save '' --appendonly no --maxmemory {}mb "
        "--maxmemory-policy noeviction --io-threads 2 --dir /tmp",
        path, memory_mb);
  return fmt::format("memcached -s {} -M -m {} -t 2 {}", path, memory_mb, ::geteuid() == 0 ? "-u root" : "");
}

class AdamClient {
 public:
  AdamClient(const std::string& kind, const std::string& path)
      : client_(kind == "redis" ? raw_redis(path, 0) : raw_memcached(path, 0)) {}

  void fill(std::span<const int64_t> keys) {
    name(keys);
    values_.assign(keys.size(), std::string((1 + kSlots) * kRowBytes, '\0'));
    client_->set_in_one(names_, values_);
  }

  // `alone`: nobody else writes, so what was pulled is what is changed; else a push reads rows and slots
  // anew.
  void train(std::span<const int64_t> keys, bool alone) {
    name(keys);
    values_.resize(keys.size());
    for (int reads = alone ? 1 : 2; reads > 0; --reads) client_->get(names_, values_);
    const storage::UpdateKernel kernel = adam_->kernel({++step_, 0.001});
    for (std::string& value : values_) {
      auto* const row = reinterpret_cast<float*>(value.data());
      kernel({row, kBenchDim}, {row + kBenchDim, kSlots * kBenchDim}, gradient_);
    }
    client_->set_in_one(names_, values_);
  }

 private:
  void name(std::span<const int64_t> keys) {
    names_.clear();
    for (const int64_t key : keys) names_.push_back(std::to_string(key));
  }

  const std::unique_ptr<RawClient> client_;
  const std::unique_ptr<const storage::UpdateRule> adam_ = storage::UpdateRule::make({"adam", {}});
  const std::vector<float> gradient_ = std::vector<float>(kBenchDim, 0.01f);
  uint64_t step_ = 0;
  std::vector<std::string> names_, values_;
};

}  // namespace

BenchChild start_store(const std::string& kind, const std::string& path, uint64_t memory_mb) {
  // A shell that waits for the socket, and ends the server when its input ends.
  return BenchChild({"sh", "-c",
                     fmt::format("{} >/dev/null 2>&1 & server=$!\n"
                                 "while [ ! -S {} ]; do kill -0 $server || exit 1; sleep 0.05; done\n"
                                 "echo ready\\ ; cat >/dev/null; kill -9 $server; rm -f {}",
                                 start_command(kind, path, memory_mb), path, path)});
}

void run_store_client(const std::vector<std::string>& words) {
  const KeyMinibatches keys(std::stol(words.at(3)));
  std::vector<std::unique_ptr<AdamClient>> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(std::make_unique<AdamClient>(words.at(1), words.at(2)));
  for (size_t i = 0; i < keys.size(); ++i) clients[0]->fill(keys[i]);
  std::atomic<size_t> next = 0;
  answer_lines("", [&](const std::string& line) {
    std::istringstream in(line);
    double seconds = 0;
    size_t count = 1;
    std::string alone;
    in >> seconds >> count >> alone;
    const size_t first = next;
    const auto begin = BenchClock::now();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        while (seconds_since(begin) < seconds) clients[i]->train(keys[next++], alone == "alone");
      });
    for (std::thread& thread : threads) thread.join();
    return fmt::format("{}", static_cast<double>((next - first) * kBenchKeys) / seconds_since(begin));
  });
}

}  // namespace embers
