#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files/disk.h"
#include "schema/messages/message.h"

namespace embers {

// The pushes of a sync job that an owner has acknowledged and not applied yet, in a file of its journal, so
// that the owner's next process has them. Data counts as written when the operating system has it.
class StagedJournal {
 public:
  // kInvalid naming a path that cannot be written.
  StagedJournal(const std::string& directory, uint32_t owner, uint64_t run, Disk& disk = host_disk());

  // What the last process left, in the order of staging; can be taken once.
  std::vector<Message<wire::PushRequest>> take_left() { return std::move(left_); }

  // Call before the push is acknowledged.
  void add(const Message<wire::PushRequest>& push);
  // Call when all pushes added so far are applied.
  void clear();

 private:
  const std::string path_;
  const uint64_t stamp_;
  std::vector<Message<wire::PushRequest>> left_;
  Disk& disk_;
  std::unique_ptr<File> file_;
  std::string record_;  // scratch
};

}  // namespace embers
