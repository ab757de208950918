#include "apps/top/watcher.h"

#include <algorithm>
#include <array>
#include <utility>

namespace embers {
namespace {

constexpr Watcher::Interval kUsual{3};  // an answer that takes longer is missed

// The job is at its end: a master in such a phase that is not there any more has not been lost.
bool is_ending(const Status& status) {
  static constexpr std::array kPhases{"ending", "closing", "failed", "over"};
  return std::ranges::find(kPhases, status.phase) != kPhases.end();
}

}  // namespace

Watcher::Watcher(std::string master, Interval interval, bool patient, Time now)
    : interval_(interval), patient_(patient), answered_(now) {
  view_.master = std::move(master);
}

void Watcher::take(const Answer& answer, Time now) {
  if (const auto* status = std::get_if<Status>(&answer)) {
    view_.status = *status;
    view_.trouble.clear();
    answered_ = now;
    return;
  }
  const Error& error = std::get<Error>(answer);
  if (is_over(error))
    conclude(error.code() == ErrorCode::kEnded ? "" : error.what(), now);
  else if (may_pass(error) && view_.status && is_ending(*view_.status))
    conclude(view_.status->error, now);
  else if (may_pass(error) && (patient_ || view_.status))
    view_.trouble = error.what();
  else
    end_ = End{"", error, exit_status(error.code())};
}

View Watcher::view(Time now) const {
  View view = view_;
  view.silent_s = std::max(0.0, std::chrono::duration<double>(now - answered_).count());
  if (view.trouble.empty() && view.silent_s > interval_.count() + kUsual.count())
    view.trouble = "waiting for the master";
  return view;
}

void Watcher::conclude(const std::string& error, Time now) {
  end_ = End{epitaph(view(now), error), {}, error.empty() ? 0 : 1};
}

}  // namespace embers
