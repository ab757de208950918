#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace embers {

// The hidden name beside `path` under which it is written first.
std::filesystem::path fresh_path(const std::filesystem::path& path);

// kInvalid, naming `what`, when no file can be made in the directory.
void check_writable(const std::filesystem::path& directory, const std::string& what);

// A file of results for people. A regular one is written under another name and replaces what stood at `path`
// when it is whole (a link stays, what it leads to is replaced); a device or pipe is written to as it stands.
// Errors: file_error_code()'s, naming the path and what the system said.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();  // without finish(): leaves nothing behind
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes) { file_.write(bytes); }
  void finish();

 private:
  const std::filesystem::path final_, written_;  // equal when written in place
  File file_;
};

// All of it at once.
void write_file(const std::string& path, std::string_view text);

// Finds out now, leaving nothing behind, whether an OutputFile can be written there later. kInvalid if not.
void check_file(const std::string& path);

}  // namespace embers
