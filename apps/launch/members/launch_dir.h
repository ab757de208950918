#pragma once

#include <memory>
#include <string>

#include "base/files/directory_lock.h"

namespace embers::launch {

// The job directory of a launcher: the one it is given, or a temporary one, which is removed after a job that
// ended well. One launcher at a time uses a directory, and none while a master that it did not start is
// there.
//
//   address, secret   of the master: see actors/transport/addresses/job_dir.h
//   logs/LABEL.log    of each member
class LaunchDir {
 public:
  // "" for a temporary one. kInvalid when it cannot be used.
  explicit LaunchDir(const std::string& given);
  ~LaunchDir();
  LaunchDir(const LaunchDir&) = delete;
  LaunchDir& operator=(const LaunchDir&) = delete;

  const std::string& path() const { return path_; }
  bool is_temporary() const { return temporary_; }
  // Makes it the secret of the job, if there is none yet.
  std::string secret() const;
  // Nobody will want to read what is in it.
  void drop() { dropped_ = true; }

 private:
  const bool temporary_;
  const std::string path_;
  std::unique_ptr<const DirectoryLock> lock_;
  bool dropped_ = false;
};

}  // namespace embers::launch
