#include "actors/shared_memory/borrower.h"

#include "actors/shared_memory/arena.h"
#include "base/errors.h"
#include "base/forks.h"

namespace embers {

// One message of the peer, while it is read.
class Borrower::Loan {
 public:
  Loan(std::shared_ptr<const Borrower> borrower, uint32_t slot)
      : borrower_(std::move(borrower)), slot_(slot) {}
  ~Loan() {
    if (borrower_->generation_ == fork_generation())
      borrower_->slots().lent[slot_].store(0, std::memory_order_release);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  const std::shared_ptr<const Borrower> borrower_;
  const uint32_t slot_;
};

Borrower::Borrower(pid_t peer, const SharedFile& arena, const SharedFile& slots)
    : arena_(Mapping::open(peer, arena, false)),
      file_(Mapping::open(peer, slots, true)),
      generation_(fork_generation()) {
  if (file_->size() < sizeof(LentSlots))
    fail(ErrorCode::kUnavailable, "a file of slots of {} bytes is too small", file_->size());
}

Borrower::~Borrower() {
  if (generation_ == fork_generation()) slots().done.store(1, std::memory_order_release);
}

Words Borrower::words(SharedPlace place, size_t words) const {
  const size_t begin = place.page * kArenaPage;
  if (place.slot >= kMostLent || begin > arena_->size() ||
      words > (arena_->size() - begin) / sizeof(capnp::word))
    fail(ErrorCode::kBadFrame, "{} words at page {} under slot {} are not in the memory that the peer shares",
         words, place.page, place.slot);
  // Read only: what has arrived is never changed.
  const auto data = reinterpret_cast<capnp::word*>(arena_->data() + begin);
  return {data, words, std::make_shared<Loan>(shared_from_this(), place.slot)};
}

}  // namespace embers
