#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/ids.h"

namespace embers::storage {

// The keys of a table's rows in order of creation: the r-th key is row r's. Like Keys, but without its limit
// of 4 GiB of bytes.
//
// *Thread safety*: none.
class KeyColumn {
 public:
  explicit KeyColumn(KeyKind kind) : kind_(kind) {}

  KeyKind kind() const { return kind_; }
  // Appends the i-th of `keys`, which must be of the same kind.
  void push_back_from(KeysView keys, size_t i);
  bool equals(uint32_t row, KeysView keys, size_t i) const {
    return kind_ == KeyKind::kInt64 ? ints_[row] == keys.ints[i] : bytes_at(row) == keys.bytes_at(i);
  }
  // The keys of rows [begin, begin + n), fewer if those hold more than the 4 GiB a view can show. Valid until
  // the next call of a member that is not const.
  KeysView view(uint32_t begin, size_t n);

  uint64_t resident_bytes() const;

 private:
  uint64_t begin_of(uint32_t row) const { return row == 0 ? 0 : ends_[row - 1]; }
  std::string_view bytes_at(uint32_t row) const {
    return std::string_view(bytes_).substr(begin_of(row), ends_[row] - begin_of(row));
  }

  KeyKind kind_;
  std::vector<int64_t> ints_;        // kInt64
  std::vector<uint64_t> ends_;       // kBytes: the r-th key is bytes_[ends_[r-1], ends_[r])
  std::string bytes_;                // kBytes
  std::vector<uint32_t> view_ends_;  // what the last view() shows
};

}  // namespace embers::storage
