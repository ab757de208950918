#include "apps/process/progress_display.h"

#include "base/log/standard_error.h"

namespace embers {

ProgressDisplay::ProgressDisplay(LogWriter& out) : out_(out) {
  if (out_.is_terminal())
    resized_.emplace([this] {
      const MutexLock lock(mutex_);
      if (shown_) draw();
    });
}

void ProgressDisplay::show(const ProgressFigures& figures) {
  if (!out_.is_terminal()) return out_.progress(at_present(progress_text(figures)));
  const MutexLock lock(mutex_);
  shown_ = figures;
  draw();
}

void ProgressDisplay::finish() {
  const MutexLock lock(mutex_);
  shown_.reset();
  out_.end_progress();
}

// The last column stays free: some terminals begin another line once it is taken.
void ProgressDisplay::draw() { out_.progress(progress_line(*shown_, out_.columns() - 1)); }

}  // namespace embers
