#include "apps/launch/members/launch_dir.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "actors/transport/addresses/job_dir.h"
#include "base/errors.h"

namespace embers::launch {
namespace fs = std::filesystem;
namespace {

std::string made(const std::string& given) {
  if (!given.empty()) {
    fs::path path = fs::absolute(given).lexically_normal();
    if (path.filename().empty()) path = path.parent_path();  // "dir/"
    return path.string();
  }
  std::error_code none;
  fs::path place = fs::temp_directory_path(none);
  std::string name = ((none ? fs::path("/tmp") : place) / "embers-launch-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)  // of mode 700
    fail(ErrorCode::kInvalid, "cannot make a job directory '{}': {}; give --job-dir, or set TMPDIR", name,
         std::strerror(errno));
  return name;
}

std::unique_ptr<const DirectoryLock> lock(const std::string& path) {
  try {
    return DirectoryLock::take(path + "/logs");
  } catch (const Error& e) {
    std::error_code none;
    if (!fs::is_directory(path + "/logs", none)) throw;
    fail(e.code(),
         "another embers launch uses job directory '{}': choose another one, or wait until its job has ended",
         path);
  }
}

}  // namespace

LaunchDir::LaunchDir(const std::string& given) : temporary_(given.empty()), path_(made(given)) {
  std::error_code none;
  const bool used = fs::is_directory(path_ + "/logs", none);
  if (used) lock_ = lock(path_);  // says more than that its master is there
  const JobDir job_dir(path_);    // nobody else's master is
  if (!used) lock_ = lock(path_);
  ::unlink((path_ + "/address").c_str());  // of a master that was killed
}

LaunchDir::~LaunchDir() {
  std::error_code ignored;
  if (temporary_ && dropped_) fs::remove_all(path_, ignored);
}

std::string LaunchDir::secret() const { return JobDir(path_).secret().bytes(); }

}  // namespace embers::launch
