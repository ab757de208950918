#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/files/temporary_file.h"

namespace embers {

// Numbers that come in any order and are read back in ascending order, in bounded memory: they are sorted in
// runs of a fixed size, and spill() moves the runs to an unnamed temporary file.
//
// *Thread safety*: none. *Invariants*: every run is sorted; a number is in exactly one run or in `open_`.
class SortedRuns {
 public:
  // `run`: how many numbers are sorted at once.
  explicit SortedRuns(size_t run) : run_(run) {}

  // Whether a run became complete, so that memory has grown.
  bool add(uint32_t number) {
    open_.push_back(number);
    ++size_;
    if (open_.size() < run_) return false;
    close();
    return true;
  }
  uint64_t size() const { return size_; }
  size_t memory() const;  // bytes of complete runs
  uint64_t file_bytes() const { return file_bytes_; }

  // Merges the complete runs in memory into one run of the file. kDisk when the disk is full, kInvalid when
  // no file can be made.
  void spill();

  // The numbers in ascending order. The runs must not change while they are read.
  class Reader;

 private:
  struct FileRun {
    uint64_t offset, numbers;
  };
  void close();

  const size_t run_;
  uint64_t size_ = 0;
  std::vector<uint32_t> open_;               // not sorted yet
  std::vector<std::vector<uint32_t>> runs_;  // in memory
  std::optional<TemporaryFile> file_;
  uint64_t file_bytes_ = 0;
  std::vector<FileRun> file_runs_;
};

// Takes 64 KiB of memory for each run in the file.
class SortedRuns::Reader {
 public:
  explicit Reader(SortedRuns& runs);
  // Moves on to the next larger number; false when there is none.
  bool next();
  uint32_t number() const { return number_; }
  uint64_t count() const { return count_; }  // how often it occurs

 private:
  friend class SortedRuns;
  // A run that is being read. `left` numbers, from `offset` on, are still in the file.
  struct Cursor {
    const uint32_t* at;
    const uint32_t* end;
    uint64_t offset = 0, left = 0;
    std::vector<uint32_t> buffer = {};
  };
  struct Head {
    uint32_t number;
    uint32_t cursor;
  };
  Reader(const SortedRuns& runs, bool with_file);
  void add(Cursor cursor);
  bool refill(Cursor& cursor);
  void sink(size_t place);

  const SortedRuns& runs_;
  std::vector<Cursor> cursors_;
  std::vector<Head> heap_;  // the least number first
  uint32_t number_ = 0;
  uint64_t count_ = 0;
};

}  // namespace embers
