#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/message_types.h"
#include "actors/owner/activity.h"
#include "base/errors.h"

namespace embers {

using beat_atom = caf::atom_constant<caf::atom("beat")>;
using end_job_atom = caf::atom_constant<caf::atom("endjob")>;
using quit_atom = caf::atom_constant<caf::atom("quit")>;

// Keeps an owner in its job: tells the master that it is alive, and notices when the master no longer is.
// (end_job) asks the master to save and end the job.
using OwnerLife =
    caf::typed_actor<caf::reacts_to<beat_atom>, caf::reacts_to<quit_atom>, caf::reacts_to<end_job_atom>>;

// The master's word on how the job ended may come a moment after its connection closes.
inline constexpr auto kOwnerVerdict = std::chrono::seconds(1);

// For the owner that the master (`master_name` in messages) knows by this incarnation; heartbeats say what it
// has done. `end` is called in the actor's thread, with why, when the master is lost or has given up on the
// owner.
OwnerLife spawn_owner_life(caf::actor_system& system, const MasterActor& master, uint64_t incarnation,
                           const std::string& master_name, std::shared_ptr<const OwnerActivity> activity,
                           std::function<void(std::optional<Error>)> end);

}  // namespace embers
