#include "storage/journal/journal_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/errors.h"

namespace embers::storage {

std::unique_ptr<const JournalLock> JournalLock::take(Disk& disk, const std::string& directory,
                                                     const std::string& job, uint32_t owner, uint64_t run) {
  const std::string me = fmt::format("job '{}' (run {:016x})", job, run);
  auto of_run = disk.lock_file(directory + "/lock");
  if (of_run->try_lock()) of_run->sign(me);
  of_run->share();  // one that has it alone is about to share it
  if (const std::string holder = of_run->holder(); holder != me)
    fail(ErrorCode::kInvalid,
         "storage.journal '{}' is in use by {}: give each job a directory of its own, or wait until that one "
         "has ended",
         directory, holder);
  auto of_owner = disk.lock_file(fmt::format("{}/shard-{}.lock", directory, owner));
  if (!of_owner->try_lock())
    fail(ErrorCode::kInvalid,
         "storage.journal '{}': shard {} of {} is still running ({}): it must end before another takes its "
         "place",
         directory, owner, me, of_owner->holder());
  of_owner->sign(fmt::format("pid {}", ::getpid()));
  return std::unique_ptr<const JournalLock>(new JournalLock(std::move(of_run), std::move(of_owner)));
}

}  // namespace embers::storage
