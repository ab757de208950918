#include "base/forks.h"

#include <pthread.h>
#include <unistd.h>

#include <array>

namespace embers {
namespace {

// Places for descriptors, 0 where free, else the descriptor + 1. Chunks are never removed.
struct Chunk {
  std::array<std::atomic<int>, 256> places{};
  std::atomic<Chunk*> next = nullptr;
};

Chunk first_chunk;
std::atomic<uint64_t> generation = 0;

// Only what may be called in a signal handler: other threads, and with them their locks, stand still.
void in_child() {
  ++generation;
  for (Chunk* chunk = &first_chunk; chunk != nullptr; chunk = chunk->next)
    for (std::atomic<int>& place : chunk->places)
      if (const int taken = place.exchange(0); taken != 0) ::close(taken - 1);
}

}  // namespace

void close_connections_in_children() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, in_child);
  static_cast<void>(registered);
}

uint64_t fork_generation() { return generation; }

ClosedInChildren::ClosedInChildren(int descriptor) {
  for (Chunk* chunk = &first_chunk;;) {
    for (std::atomic<int>& place : chunk->places) {
      int free = 0;
      if (place.load(std::memory_order_relaxed) != 0 || !place.compare_exchange_strong(free, descriptor + 1))
        continue;
      place_ = &place;
      return;
    }
    if (chunk->next == nullptr) {
      auto* const fresh = new Chunk;
      Chunk* none = nullptr;
      if (!chunk->next.compare_exchange_strong(none, fresh)) delete fresh;
    }
    chunk = chunk->next;
  }
}

void ClosedInChildren::let_go() {
  if (place_ != nullptr) place_->store(0);
  place_ = nullptr;
}

}  // namespace embers
