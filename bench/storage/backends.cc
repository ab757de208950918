// embers bench backends: a shard's stores compared with raw libmemcached and raw hiredis, in one run.
//
// Rows of 64 floats in two tables, one without slots and one with Adam's; minibatches of 4096 different keys,
// drawn uniformly or by Zipf's law (exponent 1). *pull* gathers rows; *push* updates those of the first table
// by SGD; *adam* gathers rows of the second and updates them by Adam. The raw side begins with the same int64
// keys and reads and writes the very same values under the same names of the same server, without looking at
// them. Sides take turns, the best of several steps counts. Servers run on this host with two threads, one
// after another.
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <unordered_set>

#include "apps/process/own_servers.h"
#include "base/errors.h"
#include "bench/harness/bench.h"
#include "bench/storage/raw_clients.h"
#include "storage/apply.h"
#include "storage/external/external_store.h"

namespace embers {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kDim = 64;
constexpr size_t kBatch = 4096;
constexpr size_t kBatches = 8;     // that steps go through in turn
constexpr size_t kFill = 1 << 16;  // rows made at once
constexpr TableId kPlain = 0, kAdam = 1;
constexpr uint32_t kServerMb = 15 << 10;

std::vector<std::vector<int64_t>> batches(int64_t rows, bool zipf) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<std::vector<int64_t>> all(kBatches);
  for (auto& batch : all) {
    std::unordered_set<int64_t> seen;
    while (batch.size() < kBatch) {
      const double u = unit(random), n = static_cast<double>(rows);
      const auto rank = static_cast<uint64_t>(zipf ? std::pow(n, u) : u * n);
      const auto key = static_cast<int64_t>(rank * 2654435761 % static_cast<uint64_t>(rows));
      if (seen.insert(key).second) batch.push_back(key);
    }
  }
  return all;
}

std::unique_ptr<storage::Store> filled(std::unique_ptr<storage::Store> store, int64_t rows,
                                       const storage::UpdateRule& adam) {
  TableSpec spec;
  spec.dim = kDim;
  spec.name = "plain";
  store->add_table(spec, {});
  spec.name = "adam";
  store->add_table(spec, storage::slot_init(adam, kDim));
  const std::vector<float> values(kFill * kDim, 0.5f);
  for (int64_t begin = 0; begin < rows; begin += kFill) {
    Keys keys;
    for (int64_t key = begin; key < std::min<int64_t>(rows, begin + kFill); ++key) keys.push_back(key);
    for (const TableId table : {kPlain, kAdam})
      store->add_if_absent(table, keys, std::span(values).first(keys.size() * kDim));
  }
  return store;
}

// One operation of one side on the minibatch.
struct Side {
  std::string name;
  std::function<void(const std::vector<int64_t>& keys)> step;
  double best = INFINITY;  // seconds
};

// What a shard does.
Side ours(const std::string& operation, storage::Store& store, const storage::UpdateRule& adam) {
  return {"ours", [&store, &adam, operation, rows = std::vector<float>(kBatch * kDim),
                   found = std::vector<uint8_t>(kBatch), grads = std::vector<float>(kBatch * kDim, 0.01f),
                   sgd = std::shared_ptr(storage::UpdateRule::make({})),
                   step = uint64_t{0}](const std::vector<int64_t>& ints) mutable {
            const KeysView keys{KeyKind::kInt64, ints, {}, {}};
            if (operation != "push" &&
                store.gather(operation == "pull" ? kPlain : kAdam, keys, rows, found) != kBatch)
              fail(ErrorCode::kInternal, "a row of the benchmark is gone");
            if (operation == "push") storage::apply(store, kPlain, *sgd, {++step, 0.01}, keys, grads);
            if (operation == "adam") storage::apply(store, kAdam, adam, {++step, 0.001}, keys, grads);
          }};
}

// The same reads and writes without embers.
Side raw(const std::string& operation, RawClient& client) {
  return {"raw", [&client, operation, names = std::vector<std::string>(),
                  values = std::vector<std::string>()](const std::vector<int64_t>& keys) mutable {
            const auto name = [&](const char* table, const char* suffix) {
              for (const int64_t key : keys)
                names.push_back(fmt::format("bench/{}/{}{}", table, key, suffix));
            };
            names.clear();
            name(operation == "adam" ? "adam" : "plain", "");
            values.resize(2 * kBatch);
            client.get(names, std::span(values).first(kBatch));
            if (operation == "pull") return;
            if (operation == "adam") {
              name("adam", "#slots");
              for (const size_t begin : {size_t{0}, kBatch}) {
                client.get(std::span(names).subspan(begin, kBatch), std::span(values).subspan(begin, kBatch));
              }
            }
            client.set(names, values);
          }};
}

void take_turns(std::vector<Side>& sides, const std::vector<std::vector<int64_t>>& all, int rounds) {
  for (const auto& batch : all)
    for (Side& side : sides) side.step(batch);  // slots come into being
  for (int round = 0; round < rounds; ++round)
    for (const auto& batch : all) {
      std::reverse(sides.begin(), sides.end());
      for (Side& side : sides) {
        const auto begin = Clock::now();
        side.step(batch);
        side.best = std::min(side.best, std::chrono::duration<double>(Clock::now() - begin).count());
      }
    }
}

// Rows a second of each side for every operation and distribution.
Json measure(const std::string& backend, storage::Store& store, RawClient* client,
             const storage::UpdateRule& adam, int64_t rows, int rounds) {
  Json grid = Json::array();
  for (const bool zipf : {false, true})
    for (const char* const operation : {"pull", "push", "adam"}) {
      std::vector<Side> sides;
      sides.push_back(ours(operation, store, adam));
      if (client != nullptr) sides.push_back(raw(operation, *client));
      take_turns(sides, batches(rows, zipf), rounds);
      Json point{{"backend", backend},
                 {"operation", operation},
                 {"distribution", zipf ? "zipf" : "uniform"},
                 {"rows", rows}};
      for (const Side& side : sides) point[side.name + "_rows_per_s"] = kBatch / side.best;
      if (client != nullptr)
        point["vs_raw"] = point["ours_rows_per_s"].get<double>() / point["raw_rows_per_s"].get<double>();
      fmt::print("{:<10} {:<5} {:<8} {:>8.2f} {:>8}  {:>5}\n", backend, operation, zipf ? "zipf" : "uniform",
                 point["ours_rows_per_s"].get<double>() / 1e6,
                 client ? fmt::format("{:.2f}", point["raw_rows_per_s"].get<double>() / 1e6) : "",
                 client ? fmt::format("{:.2f}", point["vs_raw"].get<double>()) : "");
      std::fflush(stdout);
      grid.push_back(point);
    }
  return grid;
}

Json target_of(const Json& grid, const std::string& backend) {
  Json points;
  for (const Json& point : grid)
    if (point["backend"] == backend) points.push_back(point);
  return target("backends." + backend + "_vs_raw", geometric_mean(points, "/vs_raw"), 0.9);
}

}  // namespace

int bench_backends(const BenchOptions& options) {
  Json report = begin_report("backends", options, options.quick ? "quick" : "");
  const int64_t rows = options.quick ? 100'000 : options.rows;
  const int rounds = options.quick ? 3 : 10;
  const auto adam = storage::UpdateRule::make({"adam", {}});
  Json grid = Json::array();
  const auto add = [&](const Json& points) { grid.insert(grid.end(), points.begin(), points.end()); };
  fmt::print("million rows/s, {} rows a table      ours      raw  ratio\n", rows);
  add(measure("memory", *filled(storage::make_memory_store(), rows, *adam), nullptr, *adam, rows, rounds));
  for (const std::string backend : {"memcached", "redis"}) {
    const OwnServers server({backend, 1, ServerPlace{"127.0.0.1", "127.0.0.1"}, kServerMb, 2, 0});
    const auto at = storage::parse_server(server.addresses()[0]);
    const bool redis = backend == "redis";
    const auto store = filled(
        storage::make_external_store(
            storage::connect_servers(backend, server.addresses(), {}, server.login()), {"bench", 1, 0, ""}),
        rows, *adam);
    const auto& [user, password] = server.login();
    const auto client =
        redis ? raw_redis(at.host, at.port, user, password) : raw_memcached(at.host, at.port, user, password);
    add(measure(backend, *store, client.get(), *adam, rows, rounds));
  }
  report.update({{"rows", rows}, {"dim", kDim}, {"batch", kBatch}, {"grid", grid}});
  report["targets"] = {target_of(grid, "memcached"), target_of(grid, "redis")};
  return end_report(report, options);
}

}  // namespace embers
