#pragma once

#include <memory>

#include "actors/shared_memory/lender.h"
#include "schema/messages/message.h"

namespace embers {

// Where a message is, as its frame says: 8 bytes.
struct SharedPlace {
  uint32_t page = 0;  // of the arena
  uint32_t slot = 0;  // of the slots
};
static_assert(sizeof(SharedPlace) == sizeof(capnp::word));

// The memory of a peer of this host, in which this process reads messages in place.
//
// *Thread safety*: all members from any thread.
class Borrower : public std::enable_shared_from_this<Borrower> {
 public:
  // kUnavailable unless both can be opened. Make it with std::make_shared().
  Borrower(pid_t peer, const SharedFile& arena, const SharedFile& slots);
  ~Borrower();  // after the last message: nothing is read any more

  // A message of that many words. The slot is given back with the last use of the words, even if the
  // connection has ended by then. kBadFrame for a place outside of the memory.
  Words words(SharedPlace place, size_t words) const;

 private:
  class Loan;
  LentSlots& slots() const { return *reinterpret_cast<LentSlots*>(file_->data()); }

  const std::unique_ptr<Mapping> arena_, file_;
  const uint64_t generation_;  // of forks: in a forked child, nothing is given back
};

}  // namespace embers
