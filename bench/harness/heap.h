#pragma once

#include <cstddef>

namespace embers {

// Asks the kernel for huge pages for so many bytes of this process's heap, which malloc then hands out to all
// sides alike: where huge pages must be asked for, tables of embers have them and those of a peer would not.
// Call it after tune_malloc(), which keeps large blocks in the heap, and before anything large is allocated;
// below a GiB, so that malloc does not give the memory back.
void ask_for_huge_pages(size_t bytes);

}  // namespace embers
