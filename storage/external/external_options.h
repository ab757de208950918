#pragma once

#include <cstdint>
#include <string>

#include "base/files/disk.h"

namespace embers::storage {

// Whose rows an external store holds.
struct ExternalOptions {
  std::string job;      // name: jobs that share servers differ in it
  uint64_t run = 0;     // number of the job's run: rows of other runs count as absent and are overwritten
  uint32_t owner = 0;   // number of the owner, the one writer of its keys
  std::string journal;  // directory for a WriteBackJournal, "" for none
  Disk* disk = &host_disk();  // of the journal
  bool takes_over = false;    // from a lost process of the owner: the journal must be there
};

}  // namespace embers::storage
