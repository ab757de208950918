#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "actors/shared_memory/mapping.h"
#include "base/mutex.h"

namespace embers {

// Messages that one peer may hold at a time.
inline constexpr uint32_t kMostLent = 256;

// What a lender and its peer share: for each slot, whether the message lent under it is still being read. The
// lender sets a slot before it tells of the message; the peer clears it when it has done with it. A message
// may be lent that the peer never hears of, since its connection ends; so the peer also says when it has done
// with all.
struct LentSlots {
  std::atomic<uint32_t> done;
  std::array<std::atomic<uint32_t>, kMostLent> lent;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Keeps the messages that one peer reads in this process's memory, until the peer has given them back or its
// process has ended. The end of a connection changes nothing: the peer may still be reading.
//
// *Thread safety*: all members from any thread.
class Lender {
 public:
  // kUnavailable where the peer's end could not be noticed, or there is no shared memory.
  explicit Lender(pid_t peer);
  ~Lender();

  SharedFile file() const { return file_->file(); }
  // The slot under which `message` is kept; none if the peer has all.
  std::optional<uint32_t> lend(std::shared_ptr<const void> message);
  // Lets go of what the peer has given back; of everything if its process has ended and `look` asks for it.
  void collect(bool look);
  // Nothing is lent any more.
  void close() { closed_ = true; }
  // Closed, and nothing is kept.
  bool is_done() const;

 private:
  LentSlots& slots() const { return *reinterpret_cast<LentSlots*>(file_->data()); }
  bool peer_has_ended() const;

  const std::unique_ptr<Mapping> file_;
  const int peer_;  // a descriptor of its process
  std::atomic<bool> closed_ = false;
  mutable Mutex mutex_;
  struct Lent {
    uint32_t slot;
    std::shared_ptr<const void> message;
  };
  std::vector<Lent> lent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embers
