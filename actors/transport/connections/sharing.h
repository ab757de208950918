#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>

#include "actors/frames/frame.h"
#include "actors/shared_memory/arena.h"
#include "actors/shared_memory/borrower.h"
#include "base/mutex.h"

namespace embers {

// The arena of a transport, made when the first peer is to read in it. As memory for messages it is the heap
// until a peer does.
//
// *Thread safety*: all members from any thread.
class SharedArena final : public WordsMemory {
 public:
  Words words(size_t words) override;
  StoreChoice* store_choice() override { return &store_choice_; }
  // Null once stopped; kUnavailable where the system has no shared memory.
  std::shared_ptr<Arena> arena();
  // A peer reads in it.
  void use() { used_ = true; }
  void stop();

 private:
  std::atomic<bool> used_ = false;
  StoreChoice store_choice_;
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Arena> arena_ ABSL_GUARDED_BY(mutex_);
};

// Large messages of one connection between two processes of one user on one host that travel as places in
// shared memory. Each side offers its memory (Share), once, and uses it for this connection when the other
// side has taken it (ShareTaken). Whatever is not possible goes over the socket.
//
// *Thread safety*: all members from any thread.
class Sharing {
 public:
  Sharing(pid_t peer, std::shared_ptr<SharedArena> memory) : peer_(peer), memory_(std::move(memory)) {}
  ~Sharing();

  // Whether to offer this side's memory now: true once.
  bool begin() { return !begun_.exchange(true); }
  // The offer; none where it cannot be made.
  std::optional<Message<wire::Share>> offer();
  // The peer's answer.
  void taken(bool taken);
  // The answer to the peer's offer.
  Message<wire::ShareTaken> take(wire::Share::Reader offer);

  // Where messages to this peer are built: null until it has taken the memory.
  WordsMemoryPtr memory() const { return taken_ ? memory_ : nullptr; }
  // Whether the peer can read this message in place.
  bool reaches(const OutFrame& frame) const;
  // Lends it; none if it is not in reach, or the peer holds too many.
  std::optional<SharedPlace> lend(const OutFrame& frame);
  // A message of the peer's memory; kBadFrame for a place outside of it.
  Words words(SharedPlace place, size_t words) const;

 private:
  const pid_t peer_;
  const std::shared_ptr<SharedArena> memory_;
  std::atomic<bool> begun_ = false, taken_ = false;
  // Set before taken_.
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Lender> lender_;
  std::shared_ptr<const Borrower> borrower_;  // on the io thread
};

// The process at the other end of a Unix socket, if this user's processes share memory: none with
// EMBERS_SHARED_MEMORY=off, or for another user's process, or one of another PID namespace.
std::optional<pid_t> shares_with(int socket);

}  // namespace embers
