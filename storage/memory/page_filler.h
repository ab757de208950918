#pragma once

#include <condition_variable>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace embers::storage {

// Makes pages resident before they are needed, on a thread of its own, which starts with the first request. A
// huge page takes the kernel 0.1 to 0.3 ms, or five to ten milliseconds if a hypervisor has to find the
// memory first: without this thread, the first thread to touch it waits for that. It rests after each page,
// so that it makes 200 MB a second at most. A thread that creates rows faster makes most pages itself, which
// costs it less than pages that lie in the caches of another core. Stores of one process share a filler, so
// that their threads do not fight over CPUs and the kernel's lock on the process's memory.
//
// *Thread safety*: all members may be called from any thread.
class PageFiller {
 public:
  PageFiller() = default;
  ~PageFiller();  // all memory that was given to it must have been forgotten

  // Fills pages of this anonymous memory, the last ones first, in turns with what else was asked for; their
  // contents stay. Does nothing where the kernel cannot do this (before Linux 5.14), where the process has a
  // single CPU, or where no thread can be started: then the first use of a page fills it.
  void fill(std::byte* data, size_t bytes);
  // Leaves alone the part of this memory that is not filled yet, because someone else is about to use it.
  // Does not wait for a page that is being filled: the kernel lets both threads make it, and drops one.
  void leave(const std::byte* data, size_t bytes);
  // The same, to be called before the memory is unmapped or moved: waits for a page that is being filled.
  void forget(const std::byte* data, size_t bytes);

  // While one of these lives, no filler of this process begins a page. For calls that map, unmap or move
  // memory, and would wait for the kernel's lock on the process's memory until the page is there.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
  };

 private:
  struct Range {
    std::byte* data;
    size_t bytes;
    bool overlaps(const std::byte* other, size_t other_bytes) const {
      return bytes != 0 && data < other + other_bytes && other < data + bytes;
    }
  };

  void run();

  Mutex mutex_;
  std::condition_variable asked_;                         // there is a range, or this is over
  std::condition_variable changed_;                       // at_hand_ or over_ is new
  std::vector<Range> ranges_ ABSL_GUARDED_BY(mutex_);     // to be filled, in turns
  Range at_hand_ ABSL_GUARDED_BY(mutex_) = {nullptr, 0};  // what is being filled
  bool cannot_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // from the first call of fill() on
};

}  // namespace embers::storage
