#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <memory>

#include "schema/message.h"

// Messages between actors of one process travel by reference and are never serialised by CAF: between
// processes only the transport of this folder carries them.
namespace caf {
template <class T>
struct allowed_unsafe_message_type<embers::Message<T>> : std::true_type {};
}  // namespace caf

namespace embers {

// "takes a T, answers with its reply": the only form of conversation between processes.
template <class T>
using Serves = typename caf::replies_to<Message<T>>::template with<Message<typename KindOf<T>::Reply>>;

// A set of requests that an actor serves, and the actor type that goes with it.
template <class... Requests>
struct Interface {
  using Actor = caf::typed_actor<Serves<Requests>...>;
};

// The row side of an owner: pulls of workers; restore and scan of the master.
using ShardInterface = Interface<wire::PullRequest, wire::RestoreRequest, wire::ScanRequest>;
using ShardActor = ShardInterface::Actor;

// The order side of an owner: pushes of workers; commits and the owner's life by the master.
using OptimizerInterface =
    Interface<wire::PushRequest, wire::NormsRequest, wire::CommitRequest, wire::FenceRequest,
              wire::MapRequest, wire::StatsRequest, wire::ResumeRequest, wire::EndRequest>;
using OptimizerActor = OptimizerInterface::Actor;

// What workers and owner processes ask of the master.
using MasterInterface =
    Interface<wire::JobRequest, wire::JoinRequest, wire::LeaseRequest, wire::DoneRequest,
              wire::HeartbeatRequest, wire::OwnersRequest, wire::FailRequest, wire::LeaveRequest>;
using MasterActor = MasterInterface::Actor;

// Number of an actor behind an endpoint, carried by every frame.
enum class Destination : uint16_t { kMaster = 1, kOptimizer = 2, kShard = 3 };

// An owner as its callers see it: local actors or proxies, nobody above the transport knows which.
struct OwnerHandles {
  OptimizerActor optimizer;
  ShardActor shard;
};

}  // namespace embers
