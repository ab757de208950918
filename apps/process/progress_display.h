#pragma once

#include <optional>

#include "apps/process/progress_line.h"
#include "apps/process/runtime.h"
#include "base/log/log_writer.h"
#include "base/mutex.h"

namespace embers {

// Shows how far a job has got: on a terminal in a line that is redrawn, as wide as the terminal is now;
// elsewhere in plain log lines, one a call. Waits for nobody.
//
// *Thread safety*: all members from any thread.
class ProgressDisplay {
 public:
  explicit ProgressDisplay(LogWriter& out);
  void show(const ProgressFigures& figures);
  // Takes the line away.
  void finish();

 private:
  void draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  LogWriter& out_;
  Mutex mutex_;
  std::optional<ProgressFigures> shown_ ABSL_GUARDED_BY(mutex_);  // on a terminal
  std::optional<ResizeWatch> resized_;                            // on a terminal; ends before the others
};

}  // namespace embers
