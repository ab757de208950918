#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/files/disk.h"

namespace embers::storage {

// Records of a file that is only appended to, each
//
//   check u64   XXH3 of all that follows, xored with the stamp
//   size  u64   bytes of what follows
//   ...         the caller's
//
// so that what was being written when the process died, and what has another stamp, cannot be read back.

// Of the records of a run of a job since the disk's host was started. What was written before is not trusted:
// it was not synced, so some of it may be lost.
uint64_t journal_stamp(Disk& disk, uint64_t run);

// Reads what a record says, front to back. Asking for more than is there ends the file there, as a record
// that cannot be read back does.
class RecordReader {
 public:
  explicit RecordReader(std::string_view text) : rest_(text) {}
  bool empty() const { return rest_.empty(); }
  template <class T>
  T number() {
    T out;
    std::memcpy(&out, bytes(sizeof out).data(), sizeof out);
    return out;
  }
  template <class T>
  std::vector<T> list(uint64_t n) {
    if (n > rest_.size() / sizeof(T)) fail();
    std::vector<T> out(n);
    const std::string_view from = bytes(n * sizeof(T));
    if (n > 0) std::memcpy(out.data(), from.data(), from.size());
    return out;
  }
  std::string_view bytes(uint64_t n) {
    if (n > rest_.size()) fail();
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  std::string_view rest() { return bytes(rest_.size()); }
  [[noreturn]] void fail() const { throw BadRecord(); }

  struct BadRecord {};

 private:
  std::string_view rest_;
};

// Visits the records of a file, which need not exist, up to the last one that can be read back; returns the
// bytes up to there. The reader's views are valid within the visit only.
uint64_t read_records(Disk& disk, const std::string& path, uint64_t stamp,
                      const std::function<void(RecordReader& record)>& visit);

// Drops what cannot be read back, before anything is appended.
void drop_after(Disk& disk, const std::string& path, uint64_t bytes);

// A record is made in `record`: begin_record, append what it says, write_record.
void begin_record(std::string& record);
template <class T>
void append_number(std::string& record, const T& number) {
  static_assert(std::has_unique_object_representations_v<T>, "its padding would be written, too");
  record.append(reinterpret_cast<const char*>(&number), sizeof number);
}
template <class T>
void append_span(std::string& record, std::span<const T> from) {
  if (!from.empty()) record.append(reinterpret_cast<const char*>(from.data()), from.size_bytes());
}
void write_record(File& file, std::string& record, uint64_t stamp);

}  // namespace embers::storage
