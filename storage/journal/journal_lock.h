#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/files/disk.h"

namespace embers::storage {

// Lets only one process at a time write the journal of an owner, and only one run of a job the journals of a
// directory. Held until dropped, or until the process ends, however it ends. The process that holds it
// therefore knows that the owner's last process writes nothing more.
class JournalLock {
 public:
  // Two files in the directory, which must exist: `lock`, shared by all owners of the run, and
  // `shard-<n>.lock`, this process's own. kInvalid naming the directory and who holds it.
  static std::unique_ptr<const JournalLock> take(Disk& disk, const std::string& directory,
                                                 const std::string& job, uint32_t owner, uint64_t run);

 private:
  JournalLock(std::unique_ptr<LockFile> run, std::unique_ptr<LockFile> owner)
      : run_(std::move(run)), owner_(std::move(owner)) {}
  const std::unique_ptr<LockFile> run_, owner_;
};

}  // namespace embers::storage
