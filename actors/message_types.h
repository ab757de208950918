#pragma once

#include <caf/all.hpp>

#include <cstdint>
#include <memory>

#include "schema/messages/message.h"
#include "schema/messages/packed_keys.h"

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

// The requests that an actor serves (a list of schema/message_kinds.h), and the actor type that goes with it.
template <class Requests>
struct Interface;
template <class... Requests>
struct Interface<MessageList<Requests...>> {
  using Actor = caf::typed_actor<Serves<Requests>...>;
};

using ShardInterface = Interface<ShardRequests>;
using ShardActor = ShardInterface::Actor;
using OptimizerInterface = Interface<OptimizerRequests>;
using OptimizerActor = OptimizerInterface::Actor;
using MasterInterface = Interface<MasterRequests>;
using MasterActor = MasterInterface::Actor;

// Number of an actor behind an endpoint, carried by every frame.
enum class Destination : uint16_t { kMaster = 1, kOptimizer = 2, kShard = 3, kProbe = 4 };

// An owner as its callers see it: local actors or proxies. Nothing above the transport knows which.
struct OwnerHandles {
  OptimizerActor optimizer;
  ShardActor shard;
  KeysSent keys = KeysSent::kAsTheyAre;  // how pulls and pushes are to send theirs
};

}  // namespace embers
