#include "apps/plan/profiled_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/process/child.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "apps/plan/spec_text.h"
#include "apps/plan/tcp_traffic.h"
#include "apps/process/child.h"
#include "apps/process/private_folder.h"
#include "apps/process/program.h"
#include "base/errors.h"
#include "client/session.h"

namespace embers::plan {
namespace {

using Clock = std::chrono::steady_clock;
namespace bp = boost::process;

constexpr float kScores[] = {0};  // of a record
constexpr uint64_t kMostSteps = uint64_t{1} << 40;

// Names of users' tables may look like globs.
std::string name_of(size_t table) { return fmt::format("t{}", table); }

std::string job_file(const job::Job& job, const std::vector<TableSpec>& tables, uint32_t shards) {
  const bool sync = job.training.mode == job::Mode::kSync;
  std::string text = fmt::format(
      "[job]\nname = \"plan\"\nseed = {}\n"
      "[training]\nmode = \"{}\"\nreduction = \"{}\"\nprefetch = 0\nworkers = 1\n"
      "[storage]\nshards = {}\nbuckets = {}\nwire_dtype = \"{}\"\n[storage.tables]\n",
      job.job.seed, sync ? "sync" : "async", job.training.reduction == job::Reduction::kSum ? "sum" : "mean",
      shards, job.storage.buckets, name(job.storage.wire_dtype));
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
  MemberProcess(std::string name, const std::string& dir, std::vector<std::string> words)
      : name_(std::move(name)),
        log_(dir + "/" + name_ + ".log"),
        child_(program_beside("embers"), bp::args(std::move(words)),
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

// A gradient that differs from row to row and from column to column.
float gradient(size_t i) {
  return 1e-3f * static_cast<float>(static_cast<int>(i * 2654435761U % 2001) - 1000);
}

}  // namespace

struct ProfiledJob::Impl {
  Impl(const job::Job& job, std::vector<TableSpec> given, uint32_t shards) : tables(std::move(given)) {
    const std::string file = folder / "job.toml", address = "unix:" + (folder / "m");
    std::ofstream(file) << job_file(job, tables, shards);
    const auto start = [&](std::string name, std::vector<std::string> words) {
      members.push_back(std::make_unique<MemberProcess>(std::move(name), folder.path(), std::move(words)));
    };
    start("master", {"master", file, "--listen", address});
    while (!std::filesystem::exists(folder / "m")) {
      members.front()->check();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (uint32_t s = 0; s < shards; ++s)
      start(fmt::format("shard {}", s), {"shard", "--master", address, "--listen", "127.0.0.1:0"});
    client::WorkerOptions options;
    options.master = address;
    for (size_t t = 0; t < tables.size(); ++t) options.tables.push_back(declared(tables[t], t));
    options.work = client::Work{.records = kMostSteps, .batch_size = 1};
    guarded([&] { session.emplace(client::Session::join_as_worker(options)); });
  }

  ~Impl() {
    if (session) session->close();
  }

  // An error of the session is that of the process that ended.
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

  // Keys of a minibatch as the session takes them.
  struct Lists {
    std::vector<client::TableKeys> keys;
    std::vector<std::vector<std::string_view>> bytes;
    std::vector<std::span<const float>> gradients;
  };

  Lists lists_of(const Minibatch& minibatch) {
    Lists lists;
    lists.bytes.resize(minibatch.size());
    for (size_t p = 0; p < minibatch.size(); ++p) {
      const Part& part = minibatch[p];
      client::TableKeys keys;
      keys.table = names(part.table);
      keys.ints = part.keys.ints;
      for (size_t i = 0; part.keys.kind == KeyKind::kBytes && i < part.keys.size(); ++i)
        lists.bytes[p].push_back(part.keys.bytes_at(i));
      keys.bytes = lists.bytes[p];
      lists.keys.push_back(keys);
    }
    return lists;
  }

  std::string_view names(size_t table) {
    while (all_names.size() < tables.size()) all_names.push_back(name_of(all_names.size()));
    return all_names[table];
  }

  const PrivateFolder folder{16};
  const std::vector<TableSpec> tables;
  std::vector<std::string> all_names;
  std::vector<float> gradients, last_rows;
  std::vector<std::unique_ptr<MemberProcess>> members;
  std::optional<client::Session> session;
};

ProfiledJob::ProfiledJob(const job::Job& job, std::vector<TableSpec> tables, uint32_t shards)
    : impl_(std::make_unique<Impl>(job, std::move(tables), shards)) {}
ProfiledJob::~ProfiledJob() = default;

ProfiledJob::Step ProfiledJob::run(std::span<const Minibatch> minibatches, size_t steps) {
  std::vector<Impl::Lists> lists;
  size_t most = 0;
  for (const Minibatch& minibatch : minibatches) {
    lists.push_back(impl_->lists_of(minibatch));
    for (const Part& part : minibatch)
      most = std::max(most, part.keys.size() * impl_->tables[part.table].dim);
  }
  for (size_t i = impl_->gradients.size(); i < most; ++i) impl_->gradients.push_back(gradient(i));
  for (size_t m = 0; m < minibatches.size(); ++m)
    for (const Part& part : minibatches[m])
      lists[m].gradients.push_back(
          std::span<const float>(impl_->gradients).first(part.keys.size() * impl_->tables[part.table].dim));
  Step step;
  impl_->guarded([&] {
    Clock::time_point begin;
    TcpTraffic before;
    for (size_t i = 0; i <= steps;) {
      client::Minibatch minibatch = impl_->session->lease();
      if (!minibatch) fail(ErrorCode::kInternal, "the job that measures has come to its end");
      const Impl::Lists& list = lists[i % lists.size()];
      minibatch.pull(list.keys);
      if (!minibatch.wait()) continue;  // stale: leased again
      if (i == 0) {
        before = TcpTraffic::now();
        begin = Clock::now();
      } else if (i == steps) {
        const std::chrono::duration<double> taken = Clock::now() - begin;
        const TcpTraffic now = TcpTraffic::now();
        const auto n = static_cast<double>(steps);
        step.seconds = taken.count() / n;
        step.sent = static_cast<double>(now.sent - before.sent) / n;
        step.received = static_cast<double>(now.received - before.received) / n;
        impl_->last_rows.clear();
        for (size_t p = 0; p < list.keys.size(); ++p) {
          const std::span<const float> rows = minibatch.rows(p);
          impl_->last_rows.insert(impl_->last_rows.end(), rows.begin(), rows.end());
        }
      }
      minibatch.push(list.gradients, {}, {.examples = 1, .scores = kScores});
      ++i;
    }
  });
  return step;
}

const std::vector<float>& ProfiledJob::last_rows() const { return impl_->last_rows; }

}  // namespace embers::plan
