#include "storage/memory/pages.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <new>
#include <utility>

#include "storage/memory/page_filler.h"

namespace embers::storage {
namespace {

// Bytes. Below the first, tables are too many for addresses that they may not need.
constexpr size_t kLeastWithRoom = size_t{64} << 10, kLeastRoom = size_t{1} << 30, kRoomPerByte = 16;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// MAP_NORESERVE: room that is never used must not count as memory that the system has promised.
std::byte* map(size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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

bool mapping_is_free() {
  static const bool lenient = [] {
    char mode = '2';
    std::ifstream("/proc/sys/vm/overcommit_memory") >> mode;
    return mode != '2';
  }();
  const auto has_limit = [](int resource) {
    rlimit most{};
    return getrlimit(resource, &most) != 0 || most.rlim_cur != RLIM_INFINITY;
  };
  return lenient && !has_limit(RLIMIT_AS) && !has_limit(RLIMIT_DATA);
}

Pages::Pages(size_t bytes, bool huge) : size_(bytes), room_(round_up(bytes, kSmallPage)), huge_(huge) {
  const PageFiller::Pause pause;
  data_ = huge ? map_aligned(bytes) : map(bytes);
  if (huge) madvise(data_, room_, MADV_HUGEPAGE);  // advice: a kernel without huge pages may refuse it
}

Pages::~Pages() {
  stop_filling();
  if (data_ == nullptr) return;
  const PageFiller::Pause pause;
  munmap(data_, room_);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      room_(std::exchange(other.room_, 0)),
      huge_(std::exchange(other.huge_, false)),
      may_have_room_(std::exchange(other.may_have_room_, true)),
      filling_(std::exchange(other.filling_, nullptr)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(room_, other.room_);
  std::swap(huge_, other.huge_);
  std::swap(may_have_room_, other.may_have_room_);
  std::swap(filling_, other.filling_);
  return *this;
}

void Pages::grow(size_t bytes, bool huge) {
  const size_t size = round_up(bytes, huge ? kHugePage : kSmallPage);
  if (size <= size_) return;
  const PageFiller::Pause pause;
  if (size > room_) move_to_room_for(size);
  if (huge && !std::exchange(huge_, true)) madvise(data_, room_, MADV_HUGEPAGE);
  size_ = size;
}

void Pages::move_to_room_for(size_t size) {
  const bool more = may_have_room_ && size >= kLeastWithRoom && mapping_is_free();
  size_t room = more ? std::max(kLeastRoom, kRoomPerByte * size) : size;
  std::byte* to = nullptr;
  try {
    to = size >= kLeastWithRoom ? map_aligned(room) : map(room);
  } catch (const std::bad_alloc&) {
    if (!more) throw;
    to = map_aligned(room = size);
  }
  stop_filling();
  // Moved and made longer at once, so that it stays one mapping: kernels before 6.17 refuse to move several.
  // If this fails, the new place may already be unmapped, and in use by another thread. It is left alone, so
  // it must not be large the next time.
  if (data_ != nullptr && mremap(data_, room_, room, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
    may_have_room_ = false;
    throw std::bad_alloc();
  }
  data_ = to;
  room_ = room;
  // A huge page would reach beyond what there is; where all memory has them, that must be said.
  if (!huge_ && room > size) madvise(data_, room_, MADV_NOHUGEPAGE);
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
