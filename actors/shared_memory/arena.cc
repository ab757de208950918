#include "actors/shared_memory/arena.h"

#include <algorithm>

namespace embers {

// Part of an arena, while a message of this process is in it.
class Arena::Block {
 public:
  Block(std::shared_ptr<Arena> arena, size_t begin, size_t bytes)
      : arena_(std::move(arena)), begin_(begin), bytes_(bytes) {}
  ~Block() { arena_->give_back(begin_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

 private:
  const std::shared_ptr<Arena> arena_;
  const size_t begin_, bytes_;
};

Words Arena::words(size_t words) {
  if (words < kLeastWords || words * sizeof(capnp::word) > memory_->size() / 4) return Words(words);
  const size_t bytes = (words * sizeof(capnp::word) + kArenaPage - 1) / kArenaPage * kArenaPage;
  collect(false);
  auto begin = take(bytes);
  if (!begin) {
    collect(true);
    begin = take(bytes);
  }
  if (!begin) return Words(words);
  const auto data = reinterpret_cast<capnp::word*>(memory_->data() + *begin);
  return {data, words, std::make_shared<Block>(shared_from_this(), *begin, bytes)};
}

std::optional<uint32_t> Arena::page_of(const capnp::word* words) const {
  const auto* const at = reinterpret_cast<const std::byte*>(words);
  if (std::less<>()(at, memory_->data()) || !std::less<>()(at, memory_->data() + memory_->size()))
    return std::nullopt;
  return static_cast<uint32_t>(static_cast<size_t>(at - memory_->data()) / kArenaPage);
}

// The first place that is large enough: what was used last is still in a cache more often than not.
std::optional<size_t> Arena::take(size_t bytes) {
  const MutexLock lock(mutex_);
  if (stopped_) return std::nullopt;
  const auto fits =
      std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.second >= bytes; });
  if (fits == free_.end()) return std::nullopt;
  const auto [begin, size] = *fits;
  free_.erase(fits);
  if (size > bytes) free_[begin + bytes] = size - bytes;
  return begin;
}

void Arena::give_back(size_t begin, size_t bytes) {
  if (generation_ != fork_generation()) return;
  const MutexLock lock(mutex_);
  if (stopped_) return;  // peers may still read it
  if (begin + bytes > kKeptBytes) memory_->discard(begin, bytes);
  auto place = free_.emplace(begin, bytes).first;
  const auto next = std::next(place);
  if (next != free_.end() && place->first + place->second == next->first) {
    place->second += next->second;
    free_.erase(next);
  }
  if (place == free_.begin()) return;
  const auto before = std::prev(place);
  if (before->first + before->second != place->first) return;
  before->second += place->second;
  free_.erase(place);
}

void Arena::collect(bool look) {
  const MutexLock lock(lenders_mutex_);
  for (const auto& lender : lenders_) lender->collect(look);
  std::erase_if(lenders_, [](const auto& lender) { return lender->is_done(); });
}

void Arena::add(std::shared_ptr<Lender> lender) {
  const MutexLock lock(lenders_mutex_);
  lenders_.push_back(std::move(lender));
}

void Arena::stop() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }
  std::vector<std::shared_ptr<Lender>> lenders;
  const MutexLock lock(lenders_mutex_);
  lenders.swap(lenders_);
}

}  // namespace embers
