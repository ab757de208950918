#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "master/state/events/events.h"

namespace embers {

// A checkpoint that somebody wants while the job runs. In an epoch nothing new is begun, owners are counted
// once nobody works on anything, and the phase is kCheckpointing until it is written. Otherwise rows do not
// change anyway. Plain state, owned by the master.
struct WantedCheckpoint {
  enum class Stage : uint8_t { kWanted, kCounting, kWriting };
  uint64_t id = 0;
  std::string directory;
  Stage stage = Stage::kWanted;
  bool rests = false;            // until the next tick: an owner that is gone may not be known as lost yet
  std::optional<Ticket> ticket;  // of whoever waits for it
  Time asked;                    // that request
};

// The last one that has come to its end, for who did not wait just then.
struct LastCheckpoint {
  uint64_t id = 0;
  std::optional<Error> error;
};

}  // namespace embers
