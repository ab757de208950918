#pragma once

#include <sched.h>

#include "base/cpus.h"

namespace embers {

// While it lives, this thread and those that it starts have one core between them.
class OneCore {
 public:
  OneCore() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    bind_thread(allowed_cpus().front());
  }
  ~OneCore() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace embers
