#pragma once

#include <atomic>
#include <cstdint>

// What a process leaves to children that it forks and that go on without exec(), as the workers of PyTorch's
// DataLoader do. A connection that such a child inherits stays open when its parent is killed, so that nobody
// notices.
namespace embers {

// From now on, children that this process forks close the descriptors that are marked by ClosedInChildren,
// and have another fork_generation(). Only for processes that fork so.
void close_connections_in_children();

// How many forks are between the first process that called close_connections_in_children() and this one.
// Threads, connections and locks of another generation are not this process's. Lock-free.
uint64_t fork_generation();

// A descriptor that children close (see above). Let go of this before the descriptor is closed, since its
// number may then be another file's.
//
// *Thread safety*: different objects may be used by different threads. Nothing here locks, since a child may
// be forked at any moment.
class ClosedInChildren {
 public:
  ClosedInChildren() = default;
  explicit ClosedInChildren(int descriptor);
  ~ClosedInChildren() { let_go(); }
  ClosedInChildren(const ClosedInChildren&) = delete;
  ClosedInChildren& operator=(const ClosedInChildren&) = delete;

  void let_go();

 private:
  std::atomic<int>* place_ = nullptr;
};

}  // namespace embers
