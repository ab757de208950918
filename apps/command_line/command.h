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
  bool verbose = false;          // -v: more about the result
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
  Task task = Task::kTrain;                           // --task
  std::vector<std::string> data;                      // --data: files instead of the job's test files
  std::string out;                                    // --out: CSV file
  std::vector<std::string> listen{"127.0.0.1:7700"};  // the default; empty where none was given
  ReachedOptions reached;
  uint32_t shards = 0, workers = 0;  // 0: as the job file says
  double connect_timeout = 20;       // seconds
};

struct JoinOptions {
  std::string master = {};  // "": the job directory says where it listens
  AccessOptions access = {};
  std::vector<std::string> set = {};  // worker: paths that differ on this host
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
  bool owner = false;                    // --owner: also joins as a shard
  std::vector<std::string> listen = {};  // as ShardOptions has them, of that shard
  ReachedOptions reached = {};
};

// Of the commands that look at a running job or steer it.
struct SteerOptions {
  JoinOptions join{.connect_timeout = 5};  // how it reaches the master
  bool json = false;                       // --json
};

struct StatusOptions {
  SteerOptions steer;
};

struct ScaleOptions {
  SteerOptions steer;
  uint32_t workers = 0;  // --workers
};

struct DrainOptions {
  SteerOptions steer;
  std::vector<std::string> members;  // names or labels
};

struct StopOptions {
  SteerOptions steer;
  bool save = true;  // without --no-save
};

struct CheckpointOptions {
  SteerOptions steer;
  std::string out;  // --out DIR
};

struct TopOptions {
  JoinOptions join{.connect_timeout = 5};  // how it reaches the master
  double interval = 1;                     // --interval SECONDS
  bool json = false;                       // --json
};

// --scheduler and what goes with it.
struct SchedulerOptions {
  bool slurm = false;
  std::string partition, account, time;  // as sbatch has them
  uint32_t nodes = 0;                    // 0: as many as Slurm chooses
  uint32_t cpus_per_worker = 1;
  uint32_t room = 0;                // workers that the allocation has room for; 0: those to begin with
  std::vector<std::string> sbatch;  // other options of sbatch, a word each
  bool wait = false;                // until the job has ended
};

struct LaunchOptions {
  MasterOptions master;              // with no address to listen on: one that suits the hosts
  std::vector<std::string> command;  // after "--": runs as worker, instead of embers worker
  uint32_t max_restarts = 3;         // of a member, in a row
  bool owner = false;                // --owner: workers hold the rows, and there are no shards
  bool dry_run = false;              // --dry-run
  std::vector<std::string> hosts;    // --hosts a,b: shards and workers run there
  std::string ssh = "ssh";           // --ssh "ssh -F FILE"
  std::string remote_program;        // --remote-program: embers on these hosts; "": where it is here
  SchedulerOptions scheduler;
  std::vector<std::string> words = {};  // all that came after "launch" on the command line
};

// A process that ends whatever a launcher leaves behind; not for users.
struct GuardOptions {
  std::string mark, slurm_job;
};

// A member that a launcher on another host started; not for users.
struct MemberOptions {
  std::string directory;                 // to start in, if there is one of this name
  bool secret = false;                   // the first line of standard input is the job's secret
  std::vector<std::string> environment;  // NAME=VALUE
  std::vector<std::string> command;      // after "--"
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

struct PlanOptions {
  JobOptions job;              // file, set, report
  std::string shards = "1,2";  // --shards LIST
  std::string keys;            // --keys FILE
  double seconds = 20;         // --seconds
  bool json = false;           // --json
};

struct SynthOptions {
  uint64_t rows = 100000, seed = 1;
  std::string out = "data";
};

struct OpOptions {
  bool lines = false;  // --lines: a case a line, instead of one
};

enum class Bench : uint8_t {
  kEngine,
  kLookup,
  kModel,
  kTrain,
  kWire,
  kBackends,
  kStorage,
  kControl,
  kHosts,
  kPython,
  kPartition
};

struct BenchOptions {
  Bench bench = Bench::kEngine;
  std::string report;         // --report FILE
  bool quick = false;         // --quick: a smaller grid, for a look
  int64_t rows = 10'000'000;  // --rows N of each table (backends, storage)
  bool large = false;         // --large: also with large dense layers (train)
};

// A process of a benchmark; not for users.
struct BenchPartOptions {
  std::vector<std::string> words;
};

// The text of the answer, ready to be printed.
struct HelpOptions {
  std::string text;
};

using Command =
    std::variant<TrainOptions, MasterOptions, ShardOptions, WorkerOptions, LaunchOptions, GuardOptions,
                 MemberOptions, StatusOptions, ScaleOptions, DrainOptions, StopOptions, CheckpointOptions,
                 TopOptions, DoctorOptions, ExamineOptions, EvaluateOptions, PredictOptions, CheckOptions,
                 PlanOptions, SynthOptions, OpOptions, BenchOptions, BenchPartOptions, HelpOptions>;

// The functions of an overload set, for std::visit.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace embers
