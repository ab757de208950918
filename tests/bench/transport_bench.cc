// Pull round trips between a client and a server of this host, each with an actor system and a transport of
// its own.
//   pull/<tcp|unix>/<outstanding>   4096 int64 keys -> 4096 x 64 floats (1 MiB), that many outstanding
// "items" are round trips, "bytes" the rows.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>

#include "actors/transport/client.h"
#include "actors/transport/server.h"
#include "tests/support/actors.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr uint32_t kKeys = 4096, kDim = 64;

ShardActor::behavior_type constant_rows(ShardActor::pointer /*self*/, float value) {
  return {
      [value](const Message<wire::PullRequest>& m) {
        const RowsShape shape{0, kDim, read_slices(m.get().getTables(), 1)[0].keys.size()};
        return make_pull_reply(0, {&shape, 1}, [value](size_t, std::span<float> rows) {
          std::fill(rows.begin(), rows.end(), value);
        });
      },
      [](const Message<wire::RestoreRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::ImportRequest>&) { return make_message<wire::Empty>(); },
      [](const Message<wire::ScanRequest>&) { return make_message<wire::ScanReply>(); },
  };
}

void pull(benchmark::State& state, const std::string& address) {
  System server_system, client_system;
  Transport server_transport(server_system), client_transport(client_system);
  auto server = Server::listen(server_transport, {parse_endpoint(address)}, {7, false});
  server->serve<ShardInterface>(Destination::kShard,
                                static_cast<caf::actor_system&>(server_system).spawn(constant_rows, 1.0f));
  server->start();
  const auto link =
      Link::open(client_transport, server->endpoints(), {7, 0, wire::Role::WORKER}, std::chrono::seconds(10));
  const ShardActor shard = link->proxy<ShardInterface>(Destination::kShard);
  std::vector<int64_t> ints(kKeys, 7);
  const Keys keys(std::move(ints));
  const TableSlices slices{0, keys, 0, {}};
  const auto request = make_pull(origin(0), wire::ReadMode::LATEST, false, {&slices, 1});
  {
    caf::scoped_actor self{client_system};
    const auto receive = [&] {
      self->receive([](const Message<wire::PullReply>& m) { benchmark::DoNotOptimize(m); });
    };
    for (int64_t i = 0; i < state.range(0); ++i) self->send(shard, request);
    for (auto _ : state) {
      receive();
      self->send(shard, request);
    }
    for (int64_t i = 0; i < state.range(0); ++i) receive();
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * kKeys * kDim * static_cast<int64_t>(sizeof(float)));
  client_transport.stop();
  server.reset();
  server_transport.stop();
}

std::string socket_path() {
  return (std::filesystem::temp_directory_path() / ("embers-bench-" + std::to_string(getpid()))).string();
}

BENCHMARK_CAPTURE(pull, tcp, "127.0.0.1:0")->Arg(1)->Arg(8)->UseRealTime();
BENCHMARK_CAPTURE(pull, unix, "unix:" + socket_path())->Arg(1)->Arg(8)->UseRealTime();

}  // namespace
}  // namespace embers
