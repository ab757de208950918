#include "client/owner/owner_life.h"

#include <fmt/format.h>

#include "actors/errors.h"

namespace embers {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

struct OwnerLifeState {
  OwnerLifeState() = default;  // no aggregate: see actors/README.md
  bool stop = false;
  duration<double> beat{0.25}, timeout{10};
  std::optional<Error> lost;
  static inline const char* name = "owner_life";
};

OwnerLife::behavior_type owner_life(OwnerLife::stateful_pointer<OwnerLifeState> self,
                                    const MasterActor& master, uint64_t incarnation,
                                    const std::string& master_name,
                                    const std::shared_ptr<const OwnerActivity>& activity,
                                    const std::function<void(std::optional<Error>)>& end) {
  const auto lost = [=](const Error& why) {
    if (self->state.lost) return;
    const bool silent = remedy(why.code()) == Remedy::kRetry;
    self->state.lost =
        silent ? Error(ErrorCode::kLost, fmt::format("lost {}: {}", master_name, why.what())) : why;
    self->delayed_send(self, kOwnerVerdict, quit_atom::value);
  };
  self->monitor(master.address());
  self->set_down_handler([=](caf::down_msg& down) { lost(from_caf(down.reason)); });
  self->send(self, beat_atom::value);
  return {
      [=](beat_atom) {
        self->request(master, duration_cast<milliseconds>(self->state.timeout),
                      make_message<wire::HeartbeatRequest>([&](wire::HeartbeatRequest::Builder b) {
                        b.setIncarnation(incarnation);
                        b.setStop(self->state.stop);
                        b.setRows(activity->rows);
                        b.setBytes(activity->bytes);
                        b.setPulls(activity->pulls);
                        b.setPushes(activity->pushes);
                        b.setApplied(activity->applied);
                        b.setWaiting(activity->waiting);
                      }))
            .then(
                [=](const Message<wire::HeartbeatReply>& m) {
                  self->state.beat = duration<double>(m.get().getInterval());
                  self->state.timeout = duration<double>(m.get().getTimeout());
                },
                [=](caf::error& e) { lost(from_caf(e)); });
        if (!self->state.lost)
          self->delayed_send(self, duration_cast<milliseconds>(self->state.beat), beat_atom::value);
      },
      [=](quit_atom) { end(self->state.lost); },
      [=](end_job_atom) {
        self->state.stop = true;
        self->send(self, beat_atom::value);
      },
  };
}

}  // namespace

OwnerLife spawn_owner_life(caf::actor_system& system, const MasterActor& master, uint64_t incarnation,
                           const std::string& master_name, std::shared_ptr<const OwnerActivity> activity,
                           std::function<void(std::optional<Error>)> end) {
  return system.spawn(owner_life, master, incarnation, master_name, std::move(activity), std::move(end));
}

}  // namespace embers
