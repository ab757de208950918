#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace embers {

// How a process tells another one of this host about memory that it shares: a memfd of its own.
struct SharedFile {
  int descriptor = -1;  // in the process that has made it
  uint64_t inode = 0;
  size_t bytes = 0;
};

// Shared memory in this process's address space. It never shrinks (the file is sealed), so what is mapped can
// be read whatever the other process does.
class Mapping {
 public:
  // Zeros, in a file of this process; kUnavailable where the system has no memfd, or no room.
  static std::unique_ptr<Mapping> make(const char* name, size_t bytes);
  // The file of process `peer`, of which it has told. kUnavailable unless it is that file, of this size at
  // least, sealed, and this process may read it (and write it, if asked for).
  static std::unique_ptr<Mapping> open(pid_t peer, const SharedFile& told, bool writable);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // To be told to peers; of a mapping that make() has made.
  SharedFile file() const { return file_; }
  // Gives the pages of this part back to the system; it reads as zeros from then on.
  void discard(size_t begin, size_t bytes) const;

 private:
  Mapping(std::byte* data, size_t size, SharedFile file) : data_(data), size_(size), file_(file) {}

  std::byte* const data_;
  const size_t size_;
  const SharedFile file_;  // its descriptor is open
};

}  // namespace embers
