#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace embers {

// A minibatch that reached some owners before its worker was lost, and that nobody finished before the job
// stopped.
struct Partial {
  uint64_t minibatch = 0;
  std::vector<uint32_t> owners;  // numbers of those that applied it
};

// Where a job stands between two versions: with the rows, all that a resumed job needs.
struct Cursor {
  uint32_t epoch = 1;           // to be worked on, from 1
  uint64_t next = 0;            // its first minibatch that was never granted
  std::vector<uint64_t> again;  // its minibatches before `next` that are not done
  uint64_t version = 0;
  uint64_t examples = 0;          // applied in the job
  uint64_t minibatches = 0;       // applied in the job
  std::vector<Partial> partial;   // async; all of them are in `again` too
  uint32_t shards = 0;            // owners when it was made
  bool sync = false;              // mode when it was made
  std::vector<std::string> data;  // what decided its minibatches: Dataset::signature()
};

}  // namespace embers
