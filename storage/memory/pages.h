#pragma once

#include <cstddef>

namespace embers::storage {

class PageFiller;

inline constexpr size_t kSmallPage = 4096, kHugePage = size_t{2} << 20;

// Whether memory that is mapped costs nothing before it is touched: there is no limit on addresses
// (RLIMIT_AS, RLIMIT_DATA), and the kernel may promise more memory than there is (vm.overcommit_memory is not
// 2).
bool mapping_is_free();

// Anonymous memory, zeroed, returned to the system when dropped. Large random-access arrays ask for huge
// pages: a random row costs a TLB miss on small ones, which halves what a shard can read per second.
class Pages {
 public:
  Pages() = default;
  // `huge` aligns the memory to kHugePage and advises the kernel. Throws std::bad_alloc.
  Pages(size_t bytes, bool huge);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Grows it to at least this size, with zeros after what there is. It may move to another address, but
  // nothing is copied: pages are remapped. It stays one mapping. Unless it is small it has addresses for many
  // times its size, so that it rarely moves: each of the calls for that waits for a page that is being
  // filled. Throws std::bad_alloc, and then nothing changed.
  void grow(size_t bytes, bool huge);
  // Has another thread make a part resident: see page_filler.h. The filler must be the same each time, and
  // outlive the pages. take() says that the caller is about to use a part: pages that are not made yet are
  // made when they are touched.
  void fill_soon(PageFiller& filler, size_t begin, size_t bytes);
  void take(size_t begin, size_t bytes) const;

 private:
  void move_to_room_for(size_t size);
  void stop_filling();

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t room_ = 0;                // bytes that are mapped: no less than size_
  bool huge_ = false;              // whether the kernel has been advised
  bool may_have_room_ = true;      // no longer once it could not be moved into such a place
  PageFiller* filling_ = nullptr;  // from fill_soon on
};

}  // namespace embers::storage
