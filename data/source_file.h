#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace embers::data {

// What shows that a file has changed: its size and modification time.
struct FileStamp {
  uint64_t size = 0;
  int64_t modified_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// A data file, open for reading at any place. gzip and zstd files (told by their first bytes) are
// decompressed when opened, into `cache_dir`, where the next process finds the copy, or, if that cannot be
// used, into a temporary file without a name. Thread safe: immutable after construction. The file stays open,
// so replacing it on disk does not disturb readers.
class SourceFile {
 public:
  // kInvalid naming a file that is missing, unreadable or not a regular file, or whose compressed data is
  // damaged.
  static std::unique_ptr<const SourceFile> open(const std::string& path, const std::string& cache_dir);
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }
  const FileStamp& stamp() const { return stamp_; }  // of the file as published
  uint64_t size() const { return size_; }            // bytes after decompression
  // Fills `out` with the bytes from `offset`. kInvalid if the file was changed in place since it was opened.
  void read(uint64_t offset, std::span<char> out) const;

 private:
  SourceFile(std::string path, FileStamp stamp, int fd, bool copy);

  const std::string path_;
  const FileStamp stamp_;
  const int fd_;  // of the file, or of its decompressed copy
  const bool copy_;
  uint64_t size_ = 0;
};

}  // namespace embers::data
