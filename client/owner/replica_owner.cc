#include "client/owner/replica_owner.h"

#include <spdlog/spdlog.h>

#include <condition_variable>

#include "base/mutex.h"

namespace embers {
struct ReplicaOwner::Shared {
  Mutex mutex;
  std::condition_variable changed;
  // Once it serves.
  std::optional<uint32_t> number ABSL_GUARDED_BY(mutex);
  OwnerHandles handles ABSL_GUARDED_BY(mutex);
  bool stops ABSL_GUARDED_BY(mutex) = false;  // the master is to end the job
  bool ended ABSL_GUARDED_BY(mutex) = false;
  std::optional<Error> why ABSL_GUARDED_BY(mutex);

  void end(std::optional<Error> error) {
    const MutexLock lock(mutex);
    if (std::exchange(ended, true)) return;
    why = std::move(error);
    changed.notify_all();
  }
};

ReplicaOwner::ReplicaOwner(caf::actor_system& system, const OwnerOptions& options, const JobAccess& access,
                           std::function<void(const Error&)> refused)
    : shared_(std::make_shared<Shared>()),
      refused_(std::move(refused)),
      owner_(system, options, access, std::make_shared<Flow>(), std::make_shared<storage::PageFiller>()) {}

ReplicaOwner::~ReplicaOwner() { leave(); }

// An owner that has taken the place after this one listens elsewhere.
void ReplicaOwner::connect_directly(SessionConfig& session) const {
  session.connect_owner = [shared = shared_, mine = texts(owner_.reached_at()),
                           elsewhere = std::move(session.connect_owner)](
                              size_t number, const std::vector<std::string>& endpoints,
                              const std::string& boot_id, uint64_t incarnation) {
    if (endpoints == mine) {
      const MutexLock lock(shared->mutex);
      if (shared->number == number) return shared->handles;
    }
    return elsewhere(number, endpoints, boot_id, incarnation);
  };
}

void ReplicaOwner::start() {
  joining_ = std::thread([this] { join(); });
}

void ReplicaOwner::join() {
  try {
    owner_.join(
        0, std::nullopt, [shared = shared_](std::optional<Error> why) { shared->end(std::move(why)); },
        [this](uint32_t number, const OwnerHandles& handles) {
          const MutexLock lock(shared_->mutex);
          shared_->number = number;
          shared_->handles = handles;
          if (shared_->stops) owner_.ask_to_stop();
        });
  } catch (const Error& e) {
    refuse(e);
  } catch (const std::exception& e) {
    refuse(Error(ErrorCode::kInternal, e.what()));
  }
}

void ReplicaOwner::refuse(const Error& why) {
  shared_->end(why);
  refused_(why);
}

void ReplicaOwner::ask_to_stop() {
  const MutexLock lock(shared_->mutex);
  if (std::exchange(shared_->stops, true) || !shared_->number || shared_->ended) return;
  owner_.ask_to_stop();
}

void ReplicaOwner::withdraw(const std::string& why) {
  {
    const MutexLock lock(shared_->mutex);
    if (!shared_->number || shared_->ended) return;
  }
  owner_.tell_that_it_leaves(why);
}

bool ReplicaOwner::has_ended_by(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(shared_->mutex);
  while (!shared_->ended && lock.wait_until(shared_->changed, deadline)) {
  }
  return shared_->ended;
}

std::optional<Error> ReplicaOwner::wait_for_end() {
  MutexLock lock(shared_->mutex);
  while (!shared_->ended) lock.wait(shared_->changed);
  return shared_->why;
}

void ReplicaOwner::leave() {
  if (std::exchange(over_, true)) return;
  owner_.leave();  // ends the wait for the master's answer, too
  if (joining_.joinable()) joining_.join();
  owner_.end();
  const MutexLock lock(shared_->mutex);
  shared_->handles = {};
}

}  // namespace embers
