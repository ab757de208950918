#include "bench/wire/owner.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "actors/ask.h"
#include "actors/owner/owner.h"
#include "actors/transport/server.h"
#include "apps/process/runtime.h"
#include "bench/harness/child.h"
#include "bench/wire/keys.h"

namespace embers {
namespace {

constexpr size_t kFill = 1 << 16;  // rows made at once

}  // namespace

TableSpec bench_table(const std::string& optimizer) {
  TableSpec spec;
  spec.name = "rows";
  spec.dim = kBenchDim;
  spec.update_rule.name = optimizer;
  spec.initializer = {"constant", {{"value", 0.5}}};
  if (optimizer == "sgd") {
    spec.update_rule.params = {{"learning_rate", 1}};
    spec.initializer = {"zeros", {}};
  }
  return spec;
}

Origin bench_origin(uint64_t minibatch) {
  Origin o;
  o.job = kBenchRun;
  o.incarnation = 1;
  o.epoch = 1;
  o.minibatch = minibatch;
  o.map_version = 1;
  o.examples = 1;
  return o;
}

OwnerHandles make_bench_owner(caf::actor_system& system, const std::string& optimizer, int64_t rows) {
  OwnerConfig config;
  config.job = kBenchRun;
  config.tables = {bench_table(optimizer)};
  config.map = even_owner_map(1);
  const OwnerHandles owner = spawn_owner(system, config);
  caf::scoped_actor self{system};
  std::vector<int64_t> keys;
  for (int64_t begin = 0; begin < rows; begin += kFill) {
    keys.resize(std::min<int64_t>(kFill, rows - begin));
    std::iota(keys.begin(), keys.end(), begin);
    const TableSlices slices{0, {KeyKind::kInt64, keys, {}, {}}, 0, {}};
    ask(self.ptr(), owner.shard, make_pull(bench_origin(0), wire::ReadMode::LATEST, true, {&slices, 1}));
  }
  return owner;
}

void serve_bench_owner(const std::string& address, const std::string& optimizer, int64_t rows) {
  SystemConfig config;
  caf::actor_system system(config);
  Transport transport(system);
  const OwnerHandles owner = make_bench_owner(system, optimizer, rows);
  const auto server = Server::listen(transport, {parse_endpoint(address)}, {kBenchRun, false});
  server->serve<OptimizerInterface>(Destination::kOptimizer, owner.optimizer);
  server->serve<ShardInterface>(Destination::kShard, owner.shard);
  server->start();
  answer_lines(server->endpoints()[0].text(), [](const std::string& line) { return line; });
  end_process(0);
}

}  // namespace embers
