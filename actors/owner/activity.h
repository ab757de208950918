#pragma once

#include <atomic>
#include <cstdint>

namespace embers {

// What an owner has done, for heartbeats to say: they must not wait for its actors, which may be busy with
// rows. For people, so each number may be of another moment.
//
// *Thread safety*: all members from any thread.
struct OwnerActivity {
  std::atomic<uint64_t> rows = 0, bytes = 0;    // that it holds
  std::atomic<uint64_t> pulls = 0, pushes = 0;  // answered; taken
  std::atomic<uint64_t> applied = 0;            // minibatches in its rows
  std::atomic<uint64_t> waiting = 0;            // pushes that were taken and are not applied yet
};

}  // namespace embers
