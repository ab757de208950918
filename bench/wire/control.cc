#include "bench/wire/control.h"

#include <atomic>
#include <thread>

#include "actors/ask.h"
#include "actors/routing/remote_owner.h"
#include "apps/process/runtime.h"
#include "bench/harness/bench.h"
#include "bench/wire/owner.h"

namespace embers {
namespace {

constexpr auto kPause = std::chrono::milliseconds(1);  // a probe must not be a load
constexpr uint64_t kNobody = UINT64_MAX;               // an incarnation that no worker has

}  // namespace

struct ControlProbe::Impl {
  explicit Impl(const std::string& address)
      : owner(remote_owner(transport, "the owner", {address}, true, {kBenchRun, 1, wire::Role::MASTER},
                           std::chrono::seconds(20), true)),
        thread([this] { run(); }) {}

  void run() {
    const auto fence =
        make_message<wire::FenceRequest>([](wire::FenceRequest::Builder b) { b.setIncarnation(kNobody); });
    caf::scoped_actor self{system};
    ask(self.ptr(), owner.optimizer, fence);  // connects
    while (!over) {
      const auto begin = BenchClock::now();
      ask(self.ptr(), owner.optimizer, fence);
      latencies.add(seconds_since(begin) * 1e3);
      std::this_thread::sleep_for(kPause);
    }
  }

  SystemConfig config;
  caf::actor_system system{config};
  Transport transport{system};
  OwnerHandles owner;
  std::atomic<bool> over = false;
  Latencies latencies;  // only the thread uses them, until it is joined
  std::thread thread;
};

ControlProbe::ControlProbe(const std::string& address) : impl_(std::make_unique<Impl>(address)) {}

Latencies ControlProbe::stop() {
  impl_->over = true;
  if (impl_->thread.joinable()) impl_->thread.join();
  return impl_->latencies;
}

ControlProbe::~ControlProbe() {
  stop();
  impl_->transport.stop();
}

}  // namespace embers
