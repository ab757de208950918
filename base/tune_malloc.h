#pragma once

#include <malloc.h>

namespace embers {

// Makes malloc keep large blocks for the next large block: rows and messages come and go by the megabyte, and
// without this, each costs page faults (0.7 GB/s on fresh memory). Call it at the start of main.
// Another malloc than glibc's ignores it (apps/process/own_malloc.cc).
inline void tune_malloc() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

}  // namespace embers
