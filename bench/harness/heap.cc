#include "bench/harness/heap.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace embers {

void ask_for_huge_pages(size_t bytes) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  void* const block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  const auto at = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = (at + kHugePage - 1) / kHugePage * kHugePage,
                  end = (at + bytes) / kHugePage * kHugePage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  std::free(block);
}

}  // namespace embers
