#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The sub-commands of `embers`. Each returns the exit status, or throws embers::Error.
namespace embers {

// Options of every command that runs a job file.
struct JobOptions {
  std::string job;               // path of the job file
  std::vector<std::string> set;  // --set a.b=c
  std::string report;            // --report FILE
  std::string output;            // --output DIR
  std::string resume;            // --resume DIR
  std::string dump_rows;         // --dump-rows FILE
  uint32_t save_every = 0;       // --save-every N epochs
};

struct MasterOptions {
  JobOptions job;
  std::vector<std::string> listen{"127.0.0.1:7700"};
  uint32_t shards = 0, workers = 0;  // 0: as the job file says
  double connect_timeout = 20;       // seconds
};

struct JoinOptions {
  std::string master;
  std::vector<std::string> set;  // worker: paths that differ on this host
  double connect_timeout = 20;
};

struct ShardOptions {
  JoinOptions join;
  uint32_t owners = 1;              // that this process joins as
  std::vector<std::string> listen;  // instead of the address that reaches the master and a Unix socket
  std::string pin;                  // --pin LIST of CPUs
};

struct TrainOptions {
  JobOptions job;
  std::string pin;  // --pin LIST of CPUs
};

struct EvaluateOptions {
  JobOptions job;                 // resume: the model's directory
  std::vector<std::string> data;  // files instead of the job's test files
  std::string out;                // predict: CSV file
};

struct SynthOptions {
  uint64_t rows = 100000, seed = 1;
  std::string out = "data";
};

struct HelpOptions {
  std::vector<std::string> command;
  bool json = false;
};

struct BenchOptions {
  std::string report;         // --report FILE
  bool quick = false;         // --quick: a smaller grid, for a look
  int64_t rows = 10'000'000;  // --rows N of each table (backends)
};

int train(const TrainOptions& options);
int serve_master(const MasterOptions& options);
int serve_shard(const ShardOptions& options);
int serve_worker(const JoinOptions& options);
int evaluate(const EvaluateOptions& options);
int predict(const EvaluateOptions& options);
int synth_criteo(const SynthOptions& options);
int check(const JobOptions& options);
int bench_engine(const BenchOptions& options);
int bench_lookup(const BenchOptions& options);
int bench_model(const BenchOptions& options);
int bench_train(const BenchOptions& options);
int bench_backends(const BenchOptions& options);
int bench_storage(const BenchOptions& options);
int bench_wire(const BenchOptions& options);
int bench_part(const std::vector<std::string>& words);  // a process of theirs
int run_op();                                           // standard input to standard output

}  // namespace embers
