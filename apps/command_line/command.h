#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

// The commands of embers: a struct of options for each.
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

struct TrainOptions {
  JobOptions job;
  std::string pin;  // --pin LIST of CPUs
};

// How a process proves that it belongs to a job.
struct AccessOptions {
  std::string job_dir;      // --job-dir DIR
  std::string secret_file;  // --secret-file FILE
  bool insecure = false;    // --insecure
};

// Where others find a process that listens.
struct ReachedOptions {
  std::string advertise;   // --advertise HOST[:PORT]
  std::string port_range;  // --port-range A-B
};

enum class Task : uint8_t { kTrain, kEvaluate, kPredict };

struct MasterOptions {
  JobOptions job;  // resume: to evaluate or predict, the model's directory
  AccessOptions access;
  Task task = Task::kTrain;       // --task
  std::vector<std::string> data;  // --data: files instead of the job's test files
  std::string out;                // --out: CSV file
  std::vector<std::string> listen{"127.0.0.1:7700"};
  ReachedOptions reached;
  uint32_t shards = 0, workers = 0;  // 0: as the job file says
  double connect_timeout = 20;       // seconds
};

struct JoinOptions {
  std::string master;  // "": the job directory says where it listens
  AccessOptions access;
  std::vector<std::string> set;  // worker: paths that differ on this host
  double connect_timeout = 20;
};

struct ShardOptions {
  JoinOptions join;
  uint32_t owners = 1;              // that this process joins as
  std::vector<std::string> listen;  // instead of the address that reaches the master and a Unix socket
  ReachedOptions reached;
  std::string pin;  // --pin LIST of CPUs
};

struct WorkerOptions {
  JoinOptions join;
};

struct DoctorOptions {
  JoinOptions join;
  std::vector<std::string> listen;  // of a shard on this host
  ReachedOptions reached;
  bool json = false, skip_data = false;
};

// What a worker here would tell the master, as JSON; for `embers doctor`, not for users.
struct ExamineOptions {
  JoinOptions join;
};

struct EvaluateOptions {
  JobOptions job;                 // resume: the model's directory
  std::vector<std::string> data;  // files instead of the job's test files
};

struct PredictOptions {
  EvaluateOptions evaluate;
  std::string out;  // CSV file
};

struct CheckOptions {
  JobOptions job;
};

struct SynthOptions {
  uint64_t rows = 100000, seed = 1;
  std::string out = "data";
};

struct OpOptions {
  bool lines = false;  // --lines: a case a line, instead of one
};

enum class Bench : uint8_t { kEngine, kLookup, kModel, kTrain, kWire, kBackends, kStorage, kHosts };

struct BenchOptions {
  Bench bench = Bench::kEngine;
  std::string report;         // --report FILE
  bool quick = false;         // --quick: a smaller grid, for a look
  int64_t rows = 10'000'000;  // --rows N of each table (backends, storage)
};

// A process of a benchmark; not for users.
struct BenchPartOptions {
  std::vector<std::string> words;
};

// The text of the answer, ready to be printed.
struct HelpOptions {
  std::string text;
};

using Command = std::variant<TrainOptions, MasterOptions, ShardOptions, WorkerOptions, EvaluateOptions,
                             PredictOptions, CheckOptions, DoctorOptions, ExamineOptions, SynthOptions,
                             OpOptions, BenchOptions, BenchPartOptions, HelpOptions>;

// The functions of an overload set, for std::visit.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace embers
