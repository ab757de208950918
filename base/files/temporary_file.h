#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace embers {

// A file that is written under a temporary name and gets its real one when complete, so that nobody ever sees
// half of it, however many processes write the same one. Removed if it is never published.
class TemporaryFile {
 public:
  // In the folder of `path`, which is created if need be; nullopt if that is impossible.
  static std::optional<TemporaryFile> beside(const std::string& path);
  // In the system's folder for temporary files, without a name. kInvalid if that is impossible.
  static TemporaryFile unnamed();

  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  // kDisk naming the file when the disk is full.
  void write(std::span<const char> bytes);
  // Reads `n` bytes from `offset` on; returns how many there were.
  size_t read_at(uint64_t offset, void* to, size_t n) const;
  // Flushes to disk and renames; false if that is impossible.
  bool publish(const std::string& path);
  // The descriptor, open for reading and writing; the caller closes it.
  int release();

 private:
  TemporaryFile(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  [[noreturn]] void fail_to(const char* verb) const;

  int fd_;
  std::string name_;  // "" once renamed, or for a file without a name
};

}  // namespace embers
