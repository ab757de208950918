#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/errors.h"

namespace embers::python {

struct ClusterOptions {
  std::string job;     // text of a job file without [model] and [data]
  std::string output;  // checkpoint at the job's end, or ""
  std::string resume;  // checkpoint to go on from, or ""
};

// A job whose master and shards are threads of this process, without libtorch. Its model comes with the first
// worker, which joins over a Unix socket that only processes of this user may connect to. Knows nothing of
// Python.
//
// *Thread safety*: all members from any thread.
class Cluster {
 public:
  // kInvalid for a job file that is wrong, a checkpoint that cannot be read, an output that cannot be
  // written.
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();  // stop(), and what has not ended by then is left behind
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Where workers and readers find it.
  const std::string& address() const;
  // Asks the job to end: what is under way is finished, and saved.
  void stop();
  // Whether the job has ended by then.
  bool wait_for_end(std::chrono::duration<double> time);
  // Once it has ended: why, if not well; and its report as JSON.
  std::optional<Error> error() const;
  std::string report() const;

  // Asks all jobs of this process to end: whether they have by then. Some may be nobody's any more.
  static bool end_all(std::chrono::duration<double> time);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace embers::python
