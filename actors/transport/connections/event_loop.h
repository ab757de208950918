#pragma once

#include <utility>  // Boost 1.74's Asio forgets it

#include <boost/asio.hpp>

#include "actors/transport/connections/schedule.h"
#include "base/mutex.h"

namespace embers {

// The io_context of a transport. Shared by everything that has sockets or timers on it, because actors keep
// links and connections for a moment after the transport's end.
class EventLoop {
 public:
  boost::asio::io_context context{1};
  Schedule schedule{context};

  // Runs `work` on the loop's thread; not at all once the loop has ended: then it returns false. Any thread.
  template <class Work>
  bool post(Work&& work) {
    const MutexLock lock(mutex_);
    if (!ended_) boost::asio::post(context, std::forward<Work>(work));
    return !ended_;
  }

  // Call when its thread has ended: releases the links and connections that still had something to run and
  // that share the loop themselves.
  void end() {
    {
      const MutexLock lock(mutex_);
      ended_ = true;
    }
    context.restart();
    context.poll();
  }

 private:
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace embers
