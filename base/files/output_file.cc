#include "base/files/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/errors.h"
#include "base/files/disk.h"

namespace embers {
namespace fs = std::filesystem;
namespace {

// Whether something exists there that is written to rather than replaced, such as a device or pipe.
bool is_special(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

fs::path resolved(const std::string& path) {
  constexpr int kMostLinks = 40;
  fs::path target = fs::absolute(path);
  if (is_special(target)) return target;
  for (int i = 0; i < kMostLinks && fs::is_symlink(target); ++i)
    target = target.parent_path() / fs::read_symlink(target);
  return target;
}

}  // namespace

fs::path fresh_path(const fs::path& path) {
  return path.parent_path() / fmt::format(".{}.embers-new", path.filename().string());
}

void check_writable(const fs::path& directory, const std::string& what) {
  std::string probe = (directory / ".embers-XXXXXX").string();
  if (::mkdtemp(probe.data()) == nullptr)
    fail(file_error_code(errno), "cannot write '{}': {}", what, std::generic_category().message(errno));
  ::rmdir(probe.c_str());
}

OutputFile::OutputFile(const std::string& path)
    : final_(resolved(path)),
      written_(is_special(final_) ? final_ : fresh_path(final_)),
      file_(host_disk().create(written_.string())) {}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (written_ != final_) fs::remove(written_, ignored);
}

void OutputFile::finish() {
  if (written_ == final_) return;
  file_->sync();
  std::error_code error;
  fs::rename(written_, final_, error);
  if (error) fail(file_error_code(error.value()), "cannot write '{}': {}", final_.string(), error.message());
  host_disk().sync_directory(final_.parent_path().string());
}

void write_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}

void check_file(const std::string& path) {
  const fs::path target = resolved(path);
  if (fs::is_directory(target)) fail(ErrorCode::kInvalid, "cannot write '{}': it is a directory", path);
  if (!is_special(target)) return check_writable(target.parent_path(), path);
  if (::access(target.c_str(), W_OK) != 0)
    fail(ErrorCode::kInvalid, "cannot write '{}': {}", path, std::generic_category().message(errno));
}

}  // namespace embers
