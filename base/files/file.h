#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace embers {

// An open file or directory of a Disk, closed when dropped. Every failure has the code of file_error_code(),
// and names the path and what the system said.
class File {
 public:
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  virtual uint64_t size() const = 0;
  virtual void write(std::string_view bytes) = 0;  // at its end
  // Reads `n` bytes from `offset` on; returns how many there were.
  virtual size_t read_at(uint64_t offset, void* to, size_t n) const = 0;
  std::string read_all() const;
  // What was written before outlives the host; of a directory, what was created, renamed and removed in it.
  virtual void sync() const = 0;
  // A file in this open directory, even if the directory has been renamed or removed since. Errors name the
  // path as if it had not.
  virtual std::unique_ptr<File> open_in(const std::string& name) const = 0;

 protected:
  explicit File(std::string path) : path_(std::move(path)) {}

 private:
  const std::string path_;
};

}  // namespace embers
