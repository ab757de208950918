#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/minibatch.h"
#include "job/job.h"

namespace embers::data {

enum class Split : uint8_t { kTrain, kTest };

// The files of one split with their record index. Immutable after construction; shared by readers on any
// thread.
class Dataset {
 public:
  // Expands globs, opens every file and builds the one-pass index, or loads it from `index_dir` when one is
  // there and still fits the files (names, sizes, modification times, format); saves it there when built. ""
  // for index_dir keeps it in memory. `files`, when not empty, replaces the split's files: paths or globs
  // relative to the current directory, not to data.dir. A split without files has no records. Errors:
  // kInvalid naming the file that is missing or unreadable, or file:line of an unterminated quote or of a
  // header of the wrong width.
  static std::shared_ptr<const Dataset> open(const job::Job& job, Split split, const std::string& index_dir,
                                             const std::vector<std::string>& files = {});
  virtual ~Dataset() = default;
  virtual uint64_t records() const = 0;
  // ceil(records / batch_size)
  virtual uint64_t minibatches() const = 0;
  virtual const job::Job& job() const = 0;
  // Everything that decides what minibatch i of epoch e holds, one line each: seed, sizes, and name, records
  // and digest of each file. If two processes have equal lines, their minibatches are equal.
  virtual std::vector<std::string> signature() const = 0;
};

// Decodes minibatches. One reader per thread; keeps the blocks it read last.
class MinibatchReader {
 public:
  // With `shuffle`, minibatch i of an epoch is slice i of the permutation seeded by (job.seed, epoch);
  // without, of the file order.
  static std::unique_ptr<MinibatchReader> make(std::shared_ptr<const Dataset> dataset, bool shuffle);
  virtual ~MinibatchReader() = default;
  // Minibatch `index` of `epoch`: the same for every reader. Errors: kInvalid with file:line and column of a
  // bad row under policy `error`; a file that changed since the index was made.
  virtual Minibatch read(uint64_t epoch, uint64_t index) = 0;
};

}  // namespace embers::data
