#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/journal/write_back_journal.h"

namespace embers {

// What one apply adds to an owner's ledger, as its journal keeps it.
struct AppliedNote {
  bool first = false;  // of its epoch, or of a resumed job: replaces everything noted before
  uint32_t epoch = 0;
  uint64_t version = 0;          // the owner's, after it
  uint64_t minibatches = 0;      // applied in the job, after it
  uint64_t examples_before = 0;  // first: records applied in the job before it
  uint64_t left_out = 0;         // bad rows of its gradients; first: including those before it
  std::vector<std::pair<uint64_t, uint32_t>> applied;  // minibatches, each with its records
};

storage::Note to_note(const AppliedNote& note);
// kCorrupt for bytes that to_note did not make.
AppliedNote read_note(std::string_view bytes);

}  // namespace embers
