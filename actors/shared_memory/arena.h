#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/shared_memory/lender.h"
#include "base/forks.h"
#include "schema/messages/message.h"

namespace embers {

inline constexpr size_t kArenaPage = 4096;  // where messages begin in an arena

// Memory in which this process builds large messages that peers on this host read in place. One for a
// process, or for a transport, and all its peers.
//
// *Thread safety*: all members from any thread.
// Invariant: a message's memory is used for another one only when neither this process nor any peer that it
// was lent to reads it any more.
class Arena final : public WordsMemory, public std::enable_shared_from_this<Arena> {
 public:
  static constexpr size_t kBytes = size_t{256} << 20;
  static constexpr size_t kLeastWords =
      (size_t{64} << 7) + 1;  // smaller messages are copied sooner than lent
  // Pages beyond this are given back to the system when nobody uses them.
  static constexpr size_t kKeptBytes = size_t{64} << 20;

  // kUnavailable where the system has no shared memory. Make it with std::make_shared().
  explicit Arena(size_t bytes = kBytes) : memory_(Mapping::make("embers-arena", bytes)), free_{{0, bytes}} {}

  // Words of the heap for a small message, for one larger than a quarter of the arena, and where there is no
  // room.
  Words words(size_t words) override;
  // The page at which a message of this arena begins; none for other words.
  std::optional<uint32_t> page_of(const capnp::word* words) const;
  SharedFile file() const { return memory_->file(); }
  // Asks it now and then for what its peer has given back.
  void add(std::shared_ptr<Lender> lender);
  // From now on all words are the heap's, and nothing waits for peers. Whatever they read stays as it is.
  void stop();

 private:
  class Block;
  std::optional<size_t> take(size_t bytes);
  void give_back(size_t begin, size_t bytes);
  void collect(bool look);

  const std::unique_ptr<Mapping> memory_;
  const uint64_t generation_ = fork_generation();  // in a forked child, nothing is given back
  Mutex mutex_;
  std::map<size_t, size_t> free_ ABSL_GUARDED_BY(mutex_);  // bytes, by where they begin
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex lenders_mutex_;
  std::vector<std::shared_ptr<Lender>> lenders_ ABSL_GUARDED_BY(lenders_mutex_);
};

}  // namespace embers
