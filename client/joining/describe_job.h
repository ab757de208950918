#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/joining/options.h"
#include "job/document/job_text.h"

namespace embers {

// What a master says of its job to a process that has not joined it yet, and needs to know what to join as.
struct JobDescription {
  job::JobText text;       // with `set` among its overrides
  std::string index_dir;   // of the data, or ""
  bool evaluates = false;  // a saved model, on the test set
  std::string version;     // of the master's embers
  uint64_t run = 0;        // a number of its own for each job that a master begins
};

// Asks for it, over a connection that then ends. `set` are overrides of this process, for paths that differ
// here: kMismatch if they change anything in which workers must agree with their master. Errors are those of
// reach_master().
JobDescription describe_job(const client::Options& options, const std::vector<std::string>& set);

}  // namespace embers
