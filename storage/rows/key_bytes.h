#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/floats/prefetch.h"

namespace embers::storage {

// The byte-string keys of a table's rows, in pieces that never move: growth copies nothing.
//
// *Thread safety*: none.
class KeyBytes {
 public:
  // Sets the key of a row, whose number is at most one more than that of any row before. The bytes of a key
  // that the row had before are not reused.
  void set(uint32_t row, std::string_view key);
  // The key of a row, which must have been set; valid until it is set again.
  std::string_view at(uint32_t row) const {
    const char* const key = place(row);
    uint32_t size;
    __builtin_memcpy(&size, key, sizeof size);
    return {key + sizeof size, size};
  }
  // Prefetching takes two steps, because a key lies where its place says.
  EMBERS_PREFETCHES void prefetch_place(uint32_t row) const { prefetch_line(&place(row)); }
  EMBERS_PREFETCHES void prefetch(uint32_t row) const { prefetch_line(place(row)); }

  uint64_t resident_bytes() const { return resident_; }

 private:
  static constexpr uint32_t kPlaces = 1 << 16;  // a piece of places
  static constexpr size_t kPieceBytes = size_t{1}
                                        << 20;  // a piece of bytes; longer keys have one of their own

  char*& place(uint32_t row) const { return places_[row / kPlaces][row % kPlaces]; }
  char* room(size_t bytes);

  std::vector<std::unique_ptr<char*[]>>
      places_;  // where the size of each row's key is, followed by its bytes
  std::vector<std::unique_ptr<char[]>> pieces_;
  char* free_ = nullptr;  // in the piece that is being filled
  size_t left_ = 0;
  uint64_t resident_ = 0;
};

}  // namespace embers::storage
