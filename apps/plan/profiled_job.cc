#include "apps/plan/profiled_job.h"

#include <fmt/format.h>

#include <boost/process/child.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/plan/session_worker.h"
#include "apps/plan/spec_text.h"
#include "apps/process/child.h"
#include "apps/process/private_folder.h"
#include "apps/process/program.h"
#include "base/errors.h"

namespace embers::plan {
namespace {

namespace bp = boost::process;

constexpr uint64_t kMostSteps = uint64_t{1} << 40;

// Names of users' tables may look like globs.
std::string name_of(size_t table) { return fmt::format("t{}", table); }

std::string job_file(const job::Job& job, const std::vector<TableSpec>& tables, uint32_t shards,
                     uint32_t workers) {
  const bool sync = job.training.mode == job::Mode::kSync;
  std::string text = fmt::format(
      "[job]\nname = \"plan\"\nseed = {}\n"
      "[training]\nmode = \"{}\"\nreduction = \"{}\"\nprefetch = 0\nworkers = {}\n{}"
      "[storage]\nshards = {}\nbuckets = {}\nwire_dtype = \"{}\"\n[storage.tables]\n",
      job.job.seed, sync ? "sync" : "async", job.training.reduction == job::Reduction::kSum ? "sum" : "mean",
      workers, sync ? fmt::format("grads_to_wait = {}\n", workers) : "", shards, job.storage.buckets,
      name(job.storage.wire_dtype));
  for (size_t t = 0; t < tables.size(); ++t)
    text +=
        fmt::format("{} = {{ dtype = \"{}\", rounding = \"{}\" }}\n", name_of(t), name(tables[t].number_type),
                    tables[t].rounding == Rounding::kStochastic ? "stochastic" : "nearest");
  return text;
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// What it says last that is an error, or else all that it says.
std::string last_words(const std::string& log) {
  const std::string text = contents(log), mark = "embers: error: ";
  const size_t found = text.rfind(mark);
  return found == std::string::npos
             ? text
             : text.substr(found + mark.size(), text.find('\n', found) - found - mark.size());
}

class MemberProcess {
 public:
  MemberProcess(std::string name, const std::string& dir, const Surroundings::Words& words)
      : name_(std::move(name)),
        log_(dir + "/" + name_ + ".log"),
        child_(words.at(0), bp::args(std::vector<std::string>(words.begin() + 1, words.end())),
               bp::std_in<bp::null, (bp::std_out & bp::std_err)> log_, ends_with_this_process()) {}
  ~MemberProcess() { end(child_); }

  void check() {
    if (child_.running()) return;
    // A status of 2 is of what the user can change.
    fail(child_.exit_code() == 2 ? ErrorCode::kInvalid : ErrorCode::kInternal,
         "the {} of the job that measures ended with status {}: {}", name_, child_.exit_code(),
         last_words(log_));
  }

 private:
  const std::string name_, log_;
  bp::child child_;
};

client::TableSpec declared(const TableSpec& table, size_t number) {
  client::TableSpec spec;
  spec.name = name_of(number);
  spec.dim = table.dim;
  spec.keys = table.key_kind == KeyKind::kInt64 ? client::KeyType::kInt64 : client::KeyType::kBytes;
  spec.initializer = "zeros";  // so that rows of both strategies can be compared
  spec.optimizer = toml(table.update_rule);
  spec.constraint = toml(table.constraint);
  spec.partition = std::string(name(table.partition));
  return spec;
}

}  // namespace

struct ProfiledJob::Impl {
  Impl(const job::Job& job, const std::vector<TableSpec>& tables, uint32_t shards,
       const Surroundings& surroundings)
      : far(surroundings.place != nullptr) {
    const std::string file = folder / "job.toml", socket = folder / "m",
                      address = far ? surroundings.master : "unix:" + socket;
    std::ofstream(file) << job_file(job, tables, shards, surroundings.workers);
    const auto start = [&](const std::string& role, uint32_t number, Surroundings::Words words) {
      words.insert(words.begin(), {program_beside("embers"), role});
      if (far) words.push_back("--insecure");
      members.push_back(
          std::make_unique<MemberProcess>(fmt::format("{} {}", role, number), folder.path(),
                                          far ? surroundings.place(role, number, words) : words));
    };
    start("master", 0, {file, "--listen", address});
    while (!far && !std::filesystem::exists(socket)) {
      members.front()->check();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (uint32_t s = 0; s < shards; ++s) {
      Surroundings::Words words{"--master", address};
      if (!far) words.insert(words.end(), {"--listen", "127.0.0.1:0"});
      start("shard", s, words);
    }
    client::WorkerOptions options;
    options.master = address;
    options.insecure = far;
    for (size_t t = 0; t < tables.size(); ++t) options.tables.push_back(declared(tables[t], t));
    options.work = client::Work{.records = kMostSteps, .batch_size = 1};
    guarded([&] {
      for (uint32_t w = 0; w < surroundings.workers; ++w)
        workers.push_back(far ? surroundings.worker(w, options) : std::make_unique<SessionWorker>(options));
    });
  }

  // An error of a worker is that of the process that ended.
  template <class F>
  void guarded(const F& body) {
    try {
      body();
    } catch (const Error&) {
      for (int wait = 0; wait < 20; ++wait) {
        for (const auto& member : members) member->check();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      throw;
    }
  }

  const PrivateFolder folder{16};
  const bool far;
  std::vector<std::unique_ptr<MemberProcess>> members;
  std::vector<std::unique_ptr<Worker>> workers;  // they leave before the others end
  uint64_t taken = 0;                            // minibatches, of all blocks
  bool in_order = true;                          // see Step
};

ProfiledJob::ProfiledJob(const job::Job& job, const std::vector<TableSpec>& tables, uint32_t shards,
                         const Surroundings& surroundings)
    : impl_(std::make_unique<Impl>(job, tables, shards, surroundings)) {}
ProfiledJob::~ProfiledJob() = default;

Step ProfiledJob::run(std::span<const Minibatch> minibatches, size_t steps) {
  Step all;
  impl_->guarded([&] {
    for (const auto& worker : impl_->workers) worker->start(minibatches, steps, impl_->taken);
    const auto n = static_cast<double>(impl_->workers.size());
    for (const auto& worker : impl_->workers) {
      const Step step = worker->finish();
      all.seconds += step.seconds / n;
      all.sent += step.sent / n;
      all.received += step.received / n;
      if (step.last >= all.last) all.last = step.last, all.rows = step.rows;
    }
  });
  impl_->taken += impl_->workers.size() * (Worker::kFirstSteps + steps);
  impl_->in_order = impl_->in_order && all.last + 1 == impl_->taken;
  all.in_order = impl_->in_order;
  return all;
}

}  // namespace embers::plan
