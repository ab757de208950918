// embers bench backends: a shard's stores compared with the leanest raw clients of the same servers that we
// know (store_connection.h), in one run.
//
// Rows of 64 floats in two tables, one without slots and one with Adam's; minibatches of 4096 different keys,
// in a random order or by Zipf's law (exponent 1).
//   pull   gathers rows of the first table
//   push   updates those by SGD
//   adam   gathers rows of the second table and updates them by Adam
// ours: a Store on the server. raw: a client whose values are a row with its slots under a short name,
// without versions, checksums or marks; it reads each once, since it keeps what it has pulled until its
// gradient is there, and writes many in a command. Both have one thread, and the same server on a Unix
// socket, one after another with each of its settings. raw has commands of 128 to 4096 keys and memcached's
// two protocols, both sides both scheduling policies. Each try goes on with the minibatches where the side's
// last one ended; at the end, the side that has done fewer does the rest, and all rows of both tables are
// compared, bit by bit.
//
//   backends.memcached_vs_raw, backends.redis_vs_raw   rows a second of ours over raw, the least over the
//                                                      server's settings, the mean over the others
// Tables in memory stand beside, without a peer.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>

#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/harness/compare.h"
#include "bench/harness/processes.h"
#include "bench/storage/store_client.h"
#include "bench/storage/store_connection.h"
#include "bench/wire/keys.h"
#include "storage/apply.h"
#include "storage/external/external_store.h"

namespace embers {
namespace {

using Json = nlohmann::json;
using KeySpan = std::span<const int64_t>;

constexpr size_t kFill = size_t{1} << 16;  // rows made at once, or compared
constexpr size_t kFillChunk = 512;
constexpr size_t kChunks[] = {128, 512, 4096};
constexpr TableId kTable = 0;
constexpr float kStart = 0.5f, kGradient = 0.01f;
constexpr size_t kServerBytes = 512;     // of a row on both sides: names, headers, the server's own
constexpr size_t kDrawnBytes = 1 << 30;  // slots, which embers makes for drawn keys

struct Length {
  size_t minibatches;  // that sides go through, again and again
  size_t of_try, tries, rounds;
};
const Length kFull{128, 16, 2, 9}, kQuick{16, 4, 1, 3};

// A table and its update rule. Without slots: "pull" and "push" by SGD; with them "adam".
struct Table {
  explicit Table(bool adam)
      : operations(adam ? std::vector<std::string>{"adam"} : std::vector<std::string>{"pull", "push"}),
        rule(storage::UpdateRule::make({adam ? "adam" : "sgd", {}})),
        learning_rate(adam ? 0.001 : 0.01),
        floats((1 + (adam ? kAdamSlots : 0)) * kBenchDim) {}

  const std::vector<std::string> operations;
  const std::shared_ptr<const storage::UpdateRule> rule;
  const double learning_rate;
  const size_t floats;  // of a row with its slots
};

// Calls visit(keys) for all keys, some at a time.
void for_all_keys(int64_t rows, const std::function<void(KeySpan)>& visit) {
  std::vector<int64_t> keys;
  for (int64_t begin = 0; begin < rows; begin += static_cast<int64_t>(kFill)) {
    keys.resize(static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(kFill), rows - begin)));
    std::iota(keys.begin(), keys.end(), begin);
    visit(keys);
  }
}

KeysView view(KeySpan keys) { return {KeyKind::kInt64, keys, {}, {}}; }

// --- sides -----------------------------------------------------------------------------------------------

// Rows under keys 0, 1, ..., each with kStart in it at first.
class Side {
 public:
  virtual ~Side() = default;
  virtual void pull(KeySpan keys, std::span<float> rows) = 0;
  virtual void push(KeySpan keys, uint64_t step) = 0;
  // Both at once, as far as the side can.
  virtual void train(KeySpan keys, uint64_t step, std::span<float> rows) = 0;
};

// What a shard does.
class Ours final : public Side {
 public:
  Ours(std::unique_ptr<storage::Store> store, const Table& table, int64_t rows)
      : store_(std::move(store)), table_(table) {
    TableSpec spec;
    spec.dim = kBenchDim;
    spec.name = "table";
    store_->add_table(spec, storage::slot_init(*table.rule, kBenchDim));
    const std::vector<float> values(kFill * kBenchDim, kStart);
    for_all_keys(rows, [&](KeySpan keys) {
      store_->add_if_absent(kTable, view(keys), std::span(values).first(keys.size() * kBenchDim));
    });
  }

  void pull(KeySpan keys, std::span<float> rows) override {
    found_.resize(keys.size());
    if (store_->gather(kTable, view(keys), rows, found_) != keys.size())
      fail(ErrorCode::kInternal, "a row of the benchmark is gone");
  }
  void push(KeySpan keys, uint64_t step) override {
    storage::apply(*store_, kTable, *table_.rule, {step, table_.learning_rate}, view(keys), gradients_);
  }
  void train(KeySpan keys, uint64_t step, std::span<float> rows) override {
    pull(keys, rows);
    push(keys, step);
  }

 private:
  const std::unique_ptr<storage::Store> store_;
  const Table& table_;
  const std::vector<float> gradients_ = std::vector<float>(kBenchKeys * kBenchDim, kGradient);
  std::vector<uint8_t> found_;
};

// The same without embers.
class Raw final : public Side {
 public:
  Raw(std::string_view protocol, const std::string& path, const Table& table)
      : connection_(connect_store(protocol, path, table.floats)), table_(table) {}

  void fill(int64_t rows) {
    std::vector<float> value(table_.floats);
    std::fill_n(value.begin(), kBenchDim, kStart);
    for_all_keys(rows, [&](KeySpan keys) { connection_->fill(keys, kFillChunk, value); });
  }
  void set_chunk(size_t keys) { chunk_ = keys; }

  void pull(KeySpan keys, std::span<float> rows) override {
    connection_->read(keys, chunk_, [&](size_t i, std::span<const float> value) {
      std::copy_n(value.begin(), kBenchDim, &rows[i * kBenchDim]);
    });
  }
  void push(KeySpan keys, uint64_t step) override {
    const storage::UpdateKernel kernel = kernel_of(step);
    connection_->update(keys, chunk_, [&](size_t, std::span<float> value) { apply(kernel, value); });
  }
  void train(KeySpan keys, uint64_t step, std::span<float> rows) override {
    const storage::UpdateKernel kernel = kernel_of(step);
    connection_->update(keys, chunk_, [&](size_t i, std::span<float> value) {
      std::copy_n(value.begin(), kBenchDim, &rows[i * kBenchDim]);
      apply(kernel, value);
    });
  }

 private:
  storage::UpdateKernel kernel_of(uint64_t step) const {
    return table_.rule->kernel({step, table_.learning_rate});
  }
  void apply(const storage::UpdateKernel& kernel, std::span<float> value) const {
    kernel(value.first(kBenchDim), value.subspan(kBenchDim), gradient_);
  }

  const std::unique_ptr<StoreConnection> connection_;
  const Table& table_;
  const std::vector<float> gradient_ = std::vector<float>(kBenchDim, kGradient);
  size_t chunk_ = kBenchKeys;
};

// --- contests --------------------------------------------------------------------------------------------

// A server, or none, whose processor time is part of every side's.
struct Server {
  std::optional<BenchChild> process;

  void set(Policy policy) const {
    set_policy_of_this_process(policy);
    if (process) set_policy(process->processes(), policy);
  }
  double cpu_seconds() const {
    return cpu_seconds_of_this_process() + (process ? process->cpu_seconds() : 0);
  }
};

// One side's way through the minibatches of one operation, whatever its configuration: the n-th it does is
// the same for all sides.
class Way {
 public:
  Way(const KeyMinibatches& minibatches, size_t count, const std::string& operation)
      : minibatches_(minibatches), count_(count), operation_(operation) {}

  void go(Side& side, size_t minibatches) {
    for (size_t end = done_ + minibatches; done_ < end; ++done_) {
      const KeySpan keys = minibatches_[done_ % count_];
      if (operation_ == "pull") side.pull(keys, rows_);
      if (operation_ == "push") side.push(keys, done_ + 1);
      if (operation_ == "adam") side.train(keys, done_ + 1, rows_);
    }
  }
  size_t done() const { return done_; }

 private:
  const KeyMinibatches& minibatches_;
  const size_t count_;  // of them
  const std::string operation_;
  std::vector<float> rows_ = std::vector<float>(kBenchKeys * kBenchDim);
  size_t done_ = 0;
};

// What takes turns on one server.
struct Place {
  std::string backend, setting;
  int64_t rows;
  const Length& length;
  const Table& table;
  const Server& server;
  Ours& ours;
  std::vector<std::pair<std::string, std::unique_ptr<Raw>>> raws;  // by protocol

  Json contest(const std::string& operation, bool zipf, const KeyMinibatches& minibatches,
               std::vector<Estimate>& ratios);
  void compare_rows();
};

Json Place::contest(const std::string& operation, bool zipf, const KeyMinibatches& minibatches,
                    std::vector<Estimate>& ratios) {
  Way our_way(minibatches, length.minibatches, operation),
      raw_way(minibatches, length.minibatches, operation);
  our_way.go(ours, length.minibatches);  // slots come into being
  if (!raws.empty()) raw_way.go(*raws[0].second, length.minibatches);
  Contest contest;
  const auto add = [&](const std::string& side, const std::string& configuration, Way& way, Side& one,
                       const std::function<void()>& prepare) {
    add_with_policies(
        contest, side, configuration, [&](Policy policy) { server.set(policy); },
        [&, prepare] {
          prepare();
          const double cpu = server.cpu_seconds();
          const auto begin = BenchClock::now();
          way.go(one, length.of_try);
          const auto n = static_cast<double>(length.of_try * kBenchKeys);
          return Cost{seconds_since(begin) / n, (server.cpu_seconds() - cpu) / n};
        });
  };
  add("ours", "", our_way, ours, [] {});
  for (const auto& of_protocol : raws) {
    Raw& raw = *of_protocol.second;
    for (const size_t chunk : kChunks)
      add("raw", fmt::format("{}, {} keys", of_protocol.first, chunk), raw_way, raw,
          [&raw, chunk] { raw.set_chunk(chunk); });
  }
  contest.choose(length.tries);
  contest.measure(length.rounds);

  Json point{{"backend", backend},
             {"setting", setting},
             {"operation", operation},
             {"distribution", zipf ? "zipf" : "uniform"},
             {"rows", rows},
             {"sides", contest.json()},
             {"ours_rows_per_s", 1 / contest.seconds("ours").value}};
  fmt::print("{:<10} {:<28} {:<5} {:<8} {:>8.3f}", backend, setting, operation, zipf ? "zipf" : "uniform",
             1e-6 / contest.seconds("ours").value);
  if (!raws.empty()) {
    if (our_way.done() < raw_way.done()) our_way.go(ours, raw_way.done() - our_way.done());
    if (raw_way.done() < our_way.done()) raw_way.go(*raws[0].second, our_way.done() - raw_way.done());
    ratios.push_back(contest.speed("ours", "raw"));
    point["raw_rows_per_s"] = 1 / contest.seconds("raw").value;
    point["vs_raw"] = ratios.back().value;
    fmt::print(" {:>8.3f}  {:5.2f}   {}", 1e-6 / contest.seconds("raw").value, ratios.back().value,
               contest.configuration("raw"));
  }
  fmt::print("\n");
  std::fflush(stdout);
  return point;
}

void Place::compare_rows() {
  std::vector<float> mine, theirs;
  for_all_keys(rows, [&](KeySpan keys) {
    mine.resize(keys.size() * kBenchDim);
    theirs.resize(mine.size());
    ours.pull(keys, mine);
    for (const auto& [protocol, raw] : raws) {
      raw->pull(keys, theirs);
      check_equal(fmt::format("rows from {}", keys.front()), {"embers", mine}, {"raw, " + protocol, theirs});
    }
  });
}

// All operations on tables of one backend in one setting. Adds the ratios in order of the operations.
Json measure(const std::string& backend, const std::string& setting, int64_t rows, const Length& length,
             std::vector<Estimate>& ratios) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("embers-bench-{}-{}", ::getpid(), backend))
          .string();
  const KeyMinibatches uniform(rows), zipf = KeyMinibatches::zipf(rows);
  Json grid = Json::array();
  for (const bool adam : {false, true}) {
    const Table table(adam);
    Server server;
    std::unique_ptr<storage::Store> store;
    std::vector<std::pair<std::string, std::unique_ptr<Raw>>> raws;
    if (backend == "memory") {
      store = storage::make_memory_store();
    } else {
      const size_t row_bytes = (kBenchDim + table.floats) * sizeof(float) + kServerBytes;
      server.process.emplace(
          start_store(backend, path, (static_cast<size_t>(rows) * row_bytes + kDrawnBytes) >> 20, setting));
      store = storage::make_external_store(storage::connect_servers(backend, {"unix:" + path}),
                                           {"bench", 1, 0, ""});
      for (const std::string_view protocol : store_protocols(backend))
        raws.emplace_back(protocol, std::make_unique<Raw>(protocol, path, table));
      raws[0].second->fill(rows);
    }
    Ours ours(std::move(store), table, rows);
    Place place{backend, setting, rows, length, table, server, ours, std::move(raws)};
    for (const bool by_zipf : {false, true})
      for (const std::string& operation : table.operations)
        grid.push_back(place.contest(operation, by_zipf, by_zipf ? zipf : uniform, ratios));
    place.compare_rows();
  }
  set_policy_of_this_process(Policy::kOther);
  return grid;
}

}  // namespace

int bench_backends(const BenchOptions& options) {
  Json report = begin_report("backends", options, sizes_of(options));
  const int64_t rows = options.quick ? std::min<int64_t>(options.rows, 100'000) : options.rows;
  const Length& length = options.quick ? kQuick : kFull;
  need_memory(static_cast<uint64_t>(rows) * ((kBenchDim + kStoredNumbers) * sizeof(float) + kServerBytes) +
                  kDrawnBytes,
              "embers bench backends", "give fewer --rows");
  report.update({{"rows", rows}, {"dim", kBenchDim}, {"batch", kBenchKeys}, {"grid", Json::array()}});
  fmt::print("million rows/s of {} rows a table                        ours      raw  ratio\n", rows);
  const auto add = [&](const Json& points) {
    report["grid"].insert(report["grid"].end(), points.begin(), points.end());
  };
  std::vector<Estimate> none;
  add(measure("memory", "", rows, length, none));
  for (const std::string backend : {"memcached", "redis"}) {
    std::vector<std::vector<Estimate>> of_settings;  // by operation and order of keys
    for (const std::string& setting : store_settings(backend, rows)) {
      std::vector<Estimate> ratios;
      add(measure(backend, setting, rows, length, ratios));
      of_settings.resize(ratios.size());
      for (size_t i = 0; i < ratios.size(); ++i) of_settings[i].push_back(ratios[i]);
    }
    std::vector<Estimate> least_of_settings;
    for (const auto& ratios : of_settings) least_of_settings.push_back(least(ratios));
    report["targets"].push_back(
        target("backends." + backend + "_vs_raw", geometric_mean(least_of_settings), 0.9));
  }
  return end_report(report, options);
}

}  // namespace embers
