#pragma once

#include <caf/all.hpp>

#include <memory>
#include <string>
#include <vector>

#include "actors/transport/client.h"
#include "apps/process/runtime.h"
#include "bench/harness/latencies.h"
#include "client/pipeline/work.h"

// An owner process and its client, which work like a shard process and a worker: embers' side of
// `embers bench wire` and `embers bench storage`.
namespace embers {

inline constexpr uint64_t kBenchRun = 1;
inline constexpr uint32_t kBenchDim = 64;
inline constexpr size_t kBenchKeys = 4096;
inline constexpr size_t kBenchOutstanding = 8;  // of bench wire
inline constexpr size_t kBenchMinibatches = 4;  // different ones, of bench wire

// Keys 0 .. rows-1 in a random order, cut into minibatches of kBenchKeys.
class KeyMinibatches {
 public:
  explicit KeyMinibatches(int64_t rows);
  size_t size() const { return keys_.size() / kBenchKeys; }
  std::span<const int64_t> operator[](size_t i) const {
    return std::span(keys_).subspan(i % size() * kBenchKeys, kBenchKeys);
  }

 private:
  std::vector<int64_t> keys_;
};

// An owner of one table "rows" of dim kBenchDim with these rows.
OwnerHandles make_bench_owner(caf::actor_system& system, const std::string& optimizer, int64_t rows);

// The part "owner ADDRESS OPTIMIZER ROWS": serves one until its input ends; ready with its address.
void serve_bench_owner(const std::string& address, const std::string& optimizer, int64_t rows);

// A worker's end of the connection.
class BenchClient {
 public:
  // A client of an owner process, or of an owner in this process (with that optimizer) if `address` is empty.
  // `shares`: large messages may travel in shared memory.
  BenchClient(const std::string& address, const std::string& optimizer, int64_t rows, bool shares = true);
  ~BenchClient();

  // Pulls this many minibatches, kBenchOutstanding at a time, each as soon as one is answered; reads what
  // read_rows reads of each reply. Of rows that came over a socket, which has written them to this process's
  // memory, no more; of others every float.
  struct Pulls {
    double seconds;
    Latencies latencies;
    double sum = 0;  // of the floats that were read
  };
  Pulls pull(size_t trips);

  // For this many seconds: pulls minibatches, takes their rows, and pushes gradients, `depth` minibatches at
  // a time, with everything that worker/ does for it. Returns rows a second.
  double train(double seconds, size_t depth);

 private:
  SystemConfig config_;
  caf::actor_system system_{config_};
  Transport transport_{system_};
  const bool shares_;
  std::shared_ptr<Owners> owners_ = std::make_shared<Owners>();
  const KeyMinibatches keys_;
  size_t next_ = 0;  // minibatch; never twice the same identity
  bool local_;
};

}  // namespace embers
