#include "storage/rows/key_bytes.h"

#include <cstring>

namespace embers::storage {

void KeyBytes::set(uint32_t row, std::string_view key) {
  if (row / kPlaces == places_.size()) {
    places_.push_back(std::make_unique<char*[]>(kPlaces));
    resident_ += kPlaces * sizeof(char*);
  }
  const auto size = static_cast<uint32_t>(key.size());
  char* const to = room(sizeof size + key.size());
  std::memcpy(to, &size, sizeof size);
  std::memcpy(to + sizeof size, key.data(), key.size());
  place(row) = to;
}

char* KeyBytes::room(size_t bytes) {
  if (bytes > kPieceBytes / 8) {
    resident_ += bytes;
    return pieces_.emplace_back(std::make_unique<char[]>(bytes)).get();
  }
  if (bytes > left_) {
    free_ = pieces_.emplace_back(std::make_unique<char[]>(kPieceBytes)).get();
    left_ = kPieceBytes;
    resident_ += kPieceBytes;
  }
  char* const room = free_;
  free_ += bytes;
  left_ -= bytes;
  return room;
}

}  // namespace embers::storage
