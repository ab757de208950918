#pragma once

#include <caf/all.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/transport/client.h"
#include "apps/process/runtime.h"
#include "bench/harness/latencies.h"
#include "bench/wire/keys.h"
#include "bench/wire/replay.h"
#include "client/pipeline/work.h"

namespace embers {

// A worker's end of a connection to an owner process (owner.h). *Thread safety*: none.
class BenchClient {
 public:
  // A client of an owner process, or of an owner in this process if `address` is empty. `shares`: large
  // messages may travel in shared memory.
  BenchClient(const std::string& address, const std::string& optimizer, int64_t rows, bool shares = true);
  ~BenchClient();

  // Sets rows 0 .. kWireRows-1 of an owner with "sgd", whose rows are zeros, to wire_value().
  void set_wire_rows();
  // Of the rows of each of the kBenchMinibatches, as hexadecimal numbers with blanks between them.
  std::string wire_checksums();

  // Pulls this many minibatches, kBenchOutstanding at a time, each as soon as one is answered. Reads what
  // read_rows reads of each reply. Of rows that came over a socket, which has written them to this process's
  // memory, no more than their ends; of others every float. Returns seconds.
  double pull(size_t trips);
  // Pulls this many minibatches, at moments that do not depend on answers (due_moments.h). A latency counts
  // from the moment at which a pull was due.
  Latencies pull_at(double rate, size_t trips, uint64_t seed);

  // Pulls minibatches, takes their rows, and pushes gradients, `depth` minibatches at a time, with everything
  // that worker/ does for it. Returns seconds.
  double train(size_t minibatches, size_t depth, bool zipf = false);
  // See checked_rows.h. To be asked before train(), in this order.
  std::vector<float> check_rows(int64_t first);
  std::vector<float> lap(size_t minibatches, size_t depth);  // way_of() the rows of each
  std::string replayed();                                    // once it has trained: Replay::answer()

 private:
  class Puller;
  struct Training;

  std::vector<float> rows_of(std::span<const int64_t> keys);

  SystemConfig config_;
  caf::actor_system system_{config_};
  Transport transport_{system_};
  const bool shares_;
  std::shared_ptr<Owners> owners_ = std::make_shared<Owners>();
  const int64_t rows_;
  const KeyMinibatches keys_;
  std::optional<KeyMinibatches> zipf_;  // once it trains
  std::optional<Replay> replay_;
  size_t next_ = 0;  // minibatch to train on; never twice the same identity
  bool local_;
};

// The part "client ADDRESS|local OPTIMIZER ROWS [sockets]", the last where nothing may travel in shared
// memory. Answers "set" (set_wire_rows), "check" with the checksums, "pull N" with its seconds, "pull-at RATE
// N SEED" with latencies in ms, "train N DEPTH [zipf]" with its seconds, "check-rows FIRST",
// "lap N DEPTH" and "replayed" with numbers.
void run_bench_client(const std::vector<std::string>& words);

}  // namespace embers
