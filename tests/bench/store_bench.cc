// Speed of the memory store. Workloads, each over 1 M rows (so most of them are in no cache), 4096 random
// distinct keys a call as a minibatch pulls them; argument: dim.
//   gather           rows of known keys copied out; int64 and string keys
//   update_adam      one Adam step a row, two slots
//   add_if_absent    4096 new rows a call into a growing table; int64 and string keys
//   initialize       first values of 4096 keys, without the store; uniform and normal
// "items" are rows, "bytes" the rows' own (slots included in update_adam, where each is read and written).

#include <benchmark/benchmark.h>

#include <random>

#include "storage/apply.h"
#include "storage/initializers/initializer.h"

namespace embers::storage {
namespace {

constexpr size_t kRows = 1 << 20;
constexpr size_t kBatch = 4096;

TableSpec spec(KeyKind kind, benchmark::State& state) {
  TableSpec table;
  table.name = "bench";
  table.dim = static_cast<uint32_t>(state.range(0));
  table.key_kind = kind;
  return table;
}

void push_key(Keys& keys, uint64_t number) {
  if (keys.kind() == KeyKind::kInt64) {
    keys.push_back(static_cast<int64_t>(number * 0x9E3779B97F4A7C15));
  } else {
    keys.push_back(std::string_view(fmt::format("user-{:012}", number)));
  }
}

Keys keys_from(KeyKind kind, uint64_t begin) {
  Keys keys(kind);
  for (uint64_t i = 0; i < kBatch; ++i) push_key(keys, begin + i);
  return keys;
}

std::vector<Keys> random_batches(KeyKind kind) {
  std::mt19937_64 random(1);
  std::vector<Keys> batches(64, Keys(kind));
  for (Keys& batch : batches)
    for (size_t i = 0; i < kBatch; ++i) push_key(batch, random() % kRows);
  return batches;
}

std::unique_ptr<Store> filled(const TableSpec& table, const std::vector<float>& slots) {
  auto store = make_memory_store();
  store->add_table(table, slots);
  const std::vector<float> values(kBatch * table.dim, 1);
  for (uint64_t begin = 0; begin < kRows; begin += kBatch)
    store->add_if_absent(0, keys_from(table.key_kind, begin), values);
  return store;
}

void count(benchmark::State& state, size_t floats_a_row) {
  const auto rows = static_cast<int64_t>(state.iterations() * kBatch);
  state.SetItemsProcessed(rows);
  state.SetBytesProcessed(rows * static_cast<int64_t>(floats_a_row * sizeof(float)));
}

void gather(benchmark::State& state, KeyKind kind) {
  const TableSpec table = spec(kind, state);
  const auto store = filled(table, {});
  const std::vector<Keys> batches = random_batches(kind);
  std::vector<float> out(kBatch * table.dim);
  std::vector<uint8_t> found(kBatch);
  size_t next = 0;
  for (auto _ : state) store->gather(0, batches[next++ % batches.size()], out, found);
  count(state, table.dim);
}

void update_adam(benchmark::State& state) {
  const TableSpec table = spec(KeyKind::kInt64, state);
  const auto adam = UpdateRule::make({"adam", {}});
  const auto store = filled(table, slot_init(*adam, table.dim));
  const std::vector<Keys> batches = random_batches(KeyKind::kInt64);
  const std::vector<float> grads(kBatch * table.dim, 0.01f);
  uint64_t step = 0;
  for (auto _ : state) {
    ++step;
    apply(*store, 0, *adam, {step, 0.001}, batches[step % batches.size()], grads);
  }
  count(state, 3 * table.dim);
}

void add_if_absent(benchmark::State& state, KeyKind kind) {
  const TableSpec table = spec(kind, state);
  const std::vector<float> values(kBatch * table.dim, 1);
  std::unique_ptr<Store> store;
  uint64_t next = kRows;
  for (auto _ : state) {
    state.PauseTiming();
    if (next >= kRows) {
      store = make_memory_store();
      store->add_table(table, {});
      next = 0;
    }
    const Keys keys = keys_from(kind, next);
    next += kBatch;
    state.ResumeTiming();
    store->add_if_absent(0, keys, values);
  }
  count(state, table.dim);
}

void initialize(benchmark::State& state, const char* name) {
  TableSpec table = spec(KeyKind::kInt64, state);
  table.initializer.name = name;
  const auto initializer = Initializer::make(1, table);
  const Keys keys = keys_from(KeyKind::kInt64, 0);
  std::vector<float> out(kBatch * table.dim);
  for (auto _ : state) initializer->fill(keys, out);
  count(state, table.dim);
}

BENCHMARK_CAPTURE(gather, int64, KeyKind::kInt64)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(gather, bytes, KeyKind::kBytes)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK(update_adam)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(add_if_absent, int64, KeyKind::kInt64)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(add_if_absent, bytes, KeyKind::kBytes)->Arg(16)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(initialize, uniform, "uniform")->Arg(64);
BENCHMARK_CAPTURE(initialize, normal, "normal")->Arg(64);

}  // namespace
}  // namespace embers::storage
