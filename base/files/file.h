#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace embers {

// An open file or directory, closed when dropped. Every failure has the code of file_error_code() and names
// the path and what the system said.
class File {
 public:
  static File create(const std::string& path);  // empty, for writing
  static File append(const std::string& path);  // created if need be, for writing at its end
  static File open(const std::string& path);    // for reading; a directory for sync() and open_in()
  // A file in an open directory, even if the directory has been renamed or removed since. Errors name the
  // path as if it had not.
  static File open_in(const File& directory, const std::string& name);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const;
  void write(std::string_view bytes);
  // Reads `n` bytes from `offset` on; returns how many there were.
  size_t read_at(uint64_t offset, void* to, size_t n) const;
  void sync() const;

 private:
  File(int descriptor, std::string path, const char* verb);
  [[noreturn]] void fail_to(const char* verb) const;

  int descriptor_;
  std::string path_;
};

// Makes renames and removals in a directory durable.
void sync_directory(const std::string& path);

}  // namespace embers
