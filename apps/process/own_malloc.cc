// What programs need that have mimalloc for their malloc. Part of each program, not of a library: programs
// come first where symbols are looked for.
//
// operator new throws std::bad_alloc where malloc fails. Debian's mimalloc is compiled as C: its own operator
// new cannot throw, and ends the process. A request that is too large must only be refused.
#include <mimalloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

// Blocks of more than 16 MiB come from here, and go back to here: from the system, each would cost page
// faults (1.2 GB/s instead of 8 to 19). Only what was used counts as memory; where so much may not be
// reserved, nothing is.
[[maybe_unused]] const int reserved = mi_reserve_os_memory(size_t{4} << 30, true, false);

template <class Malloc>
void* try_until_refused(Malloc&& try_malloc) {
  for (;;) {
    if (void* const memory = try_malloc()) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

void* allocated(std::size_t size) {
  return try_until_refused([size] { return std::malloc(std::max<std::size_t>(size, 1)); });
}

// aligned_alloc wants a multiple of the alignment.
void* allocated(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  if (size > SIZE_MAX - to) throw std::bad_alloc();
  const std::size_t whole = std::max<std::size_t>((size + to - 1) / to, 1) * to;
  return try_until_refused([=] { return std::aligned_alloc(to, whole); });
}

template <class... Args>
void* allocated_or_null(Args... args) noexcept {
  try {
    return allocated(args...);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

void* operator new(std::size_t size) { return allocated(size); }
void* operator new[](std::size_t size) { return allocated(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocated_or_null(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocated_or_null(size); }
void* operator new(std::size_t size, std::align_val_t a) { return allocated(size, a); }
void* operator new[](std::size_t size, std::align_val_t a) { return allocated(size, a); }
void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocated_or_null(size, a);
}
void* operator new[](std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocated_or_null(size, a);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
