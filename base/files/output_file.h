#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace embers {

// The hidden name beside `path` under which the file is first written.
std::filesystem::path fresh_path(const std::filesystem::path& path);

// kInvalid, naming `what`, when no file can be made in the directory.
void check_writable(const std::filesystem::path& directory, const std::string& what);

// A file of results for people. A regular file is written under another name, and replaces what is at `path`
// once it is complete (a link is kept, and its target replaced); a device or pipe is written to directly.
// Errors have file_error_code()'s codes, and name the path and what the system said.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();  // without finish(): leaves nothing behind
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes) { file_->write(bytes); }
  void finish();

 private:
  const std::filesystem::path final_, written_;  // equal when written in place
  const std::unique_ptr<File> file_;
};

// Writes the whole file at once.
void write_file(const std::string& path, std::string_view text);

// Checks now, leaving nothing behind, that an OutputFile can be written there later. kInvalid if not.
void check_file(const std::string& path);

}  // namespace embers
