#include "bench/control/owners.h"

#include "actors/message_types.h"
#include "actors/system_config.h"
#include "actors/transport/server.h"
#include "base/errors.h"

namespace embers {
namespace {

template <class T>
auto refuses() {
  return [](const Message<T>&) -> caf::result<Message<typename KindOf<T>::Reply>> {
    return to_caf(Error(ErrorCode::kInternal, "a simulated owner keeps no rows"));
  };
}

template <class T>
auto agrees() {
  return [](const Message<T>&) -> caf::result<Message<wire::Empty>> { return make_message<wire::Empty>(); };
}

OptimizerActor spawn_optimizer(caf::actor_system& system, std::shared_ptr<std::atomic<uint64_t>> done) {
  return system.spawn([done]() -> OptimizerActor::behavior_type {
    return {
        refuses<wire::PushRequest>(),
        refuses<wire::CommitRequest>(),
        agrees<wire::FenceRequest>(),
        [done](const Message<wire::StatsRequest>&) -> caf::result<Message<wire::StatsReply>> {
          return make_message<wire::StatsReply>([&](wire::StatsReply::Builder b) {
            b.setExamples(*done);
            b.setMinibatches(*done);
          });
        },
        agrees<wire::ResumeRequest>(),
        agrees<wire::EndRequest>(),
        refuses<wire::NormsRequest>(),
        agrees<wire::MapRequest>(),
    };
  });
}

ShardActor spawn_shard(caf::actor_system& system) {
  return system.spawn([]() -> ShardActor::behavior_type {
    return {refuses<wire::PullRequest>(), agrees<wire::RestoreRequest>(), refuses<wire::ImportRequest>(),
            refuses<wire::ScanRequest>()};
  });
}

}  // namespace

struct SimulatedOwners::Impl {
  explicit Impl(const ControlJob& job) : transport(system, {job.secret}) {}

  SystemConfig config;
  caf::actor_system system{config};
  Transport transport;
  OptimizerActor optimizer;
  ShardActor shard;
  std::vector<std::shared_ptr<Server>> servers;
  std::vector<std::string> addresses;
};

SimulatedOwners::SimulatedOwners(size_t count, uint64_t run, const ControlJob& job)
    : impl_(std::make_unique<Impl>(job)) {
  impl_->optimizer = spawn_optimizer(impl_->system, job.minibatches);
  impl_->shard = spawn_shard(impl_->system);
  Server::Options options;
  options.job = run;
  for (size_t i = 0; i < count; ++i) {
    const auto server = Server::listen(impl_->transport, {parse_endpoint("127.0.0.1:0")}, options);
    server->serve<OptimizerInterface>(Destination::kOptimizer, impl_->optimizer);
    server->serve<ShardInterface>(Destination::kShard, impl_->shard);
    server->start();
    impl_->servers.push_back(server);
    impl_->addresses.push_back(server->endpoints()[0].text());
  }
}

SimulatedOwners::~SimulatedOwners() {
  impl_->servers.clear();
  impl_->transport.stop();
  caf::anon_send_exit(impl_->optimizer, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(impl_->shard, caf::exit_reason::user_shutdown);
}

const std::vector<std::string>& SimulatedOwners::addresses() const { return impl_->addresses; }

}  // namespace embers
