#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace embers::storage {

// Lets only one process at a time write the journal of an owner, and only one run of a job the journals of a
// directory. Held until dropped, or until the process ends, however it ends. The process that holds it
// therefore knows that the owner's last process writes nothing more.
class JournalLock {
 public:
  // Two files in the directory, which must exist: `lock`, shared by all owners of the run, and
  // `shard-<n>.lock`, this process's own. kInvalid naming the directory and who holds it.
  static std::unique_ptr<const JournalLock> take(const std::string& directory, const std::string& job,
                                                 uint32_t owner, uint64_t run);
  ~JournalLock();
  JournalLock(const JournalLock&) = delete;
  JournalLock& operator=(const JournalLock&) = delete;

 private:
  JournalLock(int run, int owner) : run_(run), owner_(owner) {}
  const int run_, owner_;  // descriptors
};

}  // namespace embers::storage
