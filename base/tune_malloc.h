#pragma once

#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace embers {

// Makes malloc keep large blocks for the next large block: rows and messages come and go by the megabyte, and
// without this, each costs page faults (0.7 GB/s on fresh memory). Call it at the start of main.
// Another malloc than glibc's ignores it (apps/process/own_malloc.cc).
inline void tune_malloc() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

// Asks the kernel for huge pages for the memory that malloc hands out next, below a GiB: tensors of megabytes
// wait for the tables of small pages else. Call it after tune_malloc(), which keeps large blocks in the heap,
// and before anything large is allocated. Where the kernel has no huge pages, nothing changes.
inline void ask_for_huge_pages() {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  constexpr size_t kBytes = size_t{960} << 20;  // malloc would give back more than a GiB
  void* const block = std::malloc(kBytes);
  if (block == nullptr) return;
  const auto at = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = (at + kHugePage - 1) / kHugePage * kHugePage,
                  end = (at + kBytes) / kHugePage * kHugePage;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  std::free(block);
}

}  // namespace embers
