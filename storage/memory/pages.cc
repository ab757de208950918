#include "storage/memory/pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "storage/memory/page_filler.h"

namespace embers::storage {
namespace {

std::byte* map(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(at);
}

bool aligned(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % kHugePage == 0; }

// The kernel places mappings side by side, so that after the first one the plain attempt is aligned already
// and all of them merge into one (the number of mappings of a process is limited).
std::byte* map_aligned(size_t bytes) {
  std::byte* at = map(bytes);
  if (aligned(at)) return at;
  munmap(at, bytes);
  at = map(bytes + kHugePage);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(at) % kHugePage) % kHugePage;
  if (before != 0) munmap(at, before);
  munmap(at + before + bytes, kHugePage - before);
  return at + before;
}

}  // namespace

Pages::Pages(size_t bytes, bool huge) : data_(huge ? map_aligned(bytes) : map(bytes)), size_(bytes) {
  if (huge) madvise(data_, size_, MADV_HUGEPAGE);  // advice: a kernel without huge pages may refuse it
}

Pages::~Pages() {
  stop_filling();
  if (data_ != nullptr) munmap(data_, size_);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      filling_(std::exchange(other.filling_, nullptr)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(filling_, other.filling_);
  return *this;
}

void Pages::grow(size_t bytes, bool huge) {
  const size_t unit = huge ? kHugePage : kSmallPage;
  Pages grown((bytes + unit - 1) / unit * unit, huge);
  if (grown.size_ <= size_) return;
  stop_filling();
  if (data_ != nullptr) {
    // Moved and made longer at once, and advised as a whole, so that it stays one mapping: kernels
    // before 6.17 refuse to move several. If this fails, the new place may already be unmapped, and in use by
    // another thread.
    const size_t used = (size_ + kSmallPage - 1) / kSmallPage * kSmallPage;
    std::byte* const to = std::exchange(grown.data_, nullptr);
    if (mremap(data_, used, grown.size_, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
      throw std::bad_alloc();
    if (huge) madvise(to, grown.size_, MADV_HUGEPAGE);
    data_ = nullptr;
    grown.data_ = to;
  }
  *this = std::move(grown);
}

void Pages::fill_soon(PageFiller& filler, size_t begin, size_t bytes) {
  filling_ = &filler;
  filler.fill(data_ + begin, bytes);
}

void Pages::take(size_t begin, size_t bytes) const {
  if (filling_ != nullptr) filling_->leave(data_ + begin, bytes);
}

void Pages::stop_filling() {
  if (PageFiller* const filler = std::exchange(filling_, nullptr)) filler->forget(data_, size_);
}

}  // namespace embers::storage
