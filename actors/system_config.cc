#include "actors/system_config.h"

#include <algorithm>
#include <thread>

namespace embers {
namespace {

constexpr uint32_t kThreadsOfAnOwner = 2;  // shard and optimizer
// Messages that an actor handles before others have their turn. A heartbeat may have to wait for this many
// pulls of a busy shard.
constexpr size_t kMessagesAtOnce = 4;
// The same of actors that are quick. Each turn may wake another thread up, which then takes the actor, and
// all that it knows, to another core.
constexpr size_t kQuickMessagesAtOnce = 64;

}  // namespace

SystemConfig::SystemConfig(uint32_t owners) {
  // Asio's thread wakes a `stealing` scheduler in 115 us to 3.8 ms, a `sharing` one in 5 us.
  set("scheduler.policy", caf::atom("sharing"));
  const uint32_t most = std::max(8u, kThreadsOfAnOwner * owners);
  set("scheduler.max-threads",
      static_cast<size_t>(std::clamp(std::thread::hardware_concurrency(), 2u, most)));
  // By default an actor runs until its mailbox is empty, and a busy shard's never is.
  set("scheduler.max-throughput", kMessagesAtOnce);
  set("logger.console", caf::atom("none"));
}

SystemConfig& SystemConfig::with_quick_actors() {
  set("scheduler.max-throughput", kQuickMessagesAtOnce);
  return *this;
}

}  // namespace embers
