#include "storage/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "schema/errors.h"
#include "storage/checkpoint_paths.h"

namespace embers::storage {
namespace fs = std::filesystem;
namespace {

// Whether something stands there that is written to and not replaced.
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

OutputFile::OutputFile(const std::string& path)
    : final_(resolved(path)),
      written_(is_special(final_) ? final_ : fresh_path(final_)),
      file_(File::create(written_.string())) {}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (written_ != final_) fs::remove(written_, ignored);
}

void OutputFile::finish() {
  if (written_ == final_) return;
  file_.sync();
  std::error_code error;
  fs::rename(written_, final_, error);
  if (error) fail(file_error_code(error.value()), "cannot write '{}': {}", final_.string(), error.message());
  sync_directory(final_.parent_path().string());
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

}  // namespace embers::storage
