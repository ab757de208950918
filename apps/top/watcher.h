#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "apps/top/poller.h"
#include "apps/top/view.h"

namespace embers {

// What answers and their absence make of the view, and when there is nothing left to watch. A plain value;
// moments come from the caller.
class Watcher {
 public:
  using Time = std::chrono::steady_clock::time_point;

  using Interval = std::chrono::duration<double>;

  // The master is asked again `interval` after each answer. `patient`: also one that is not there yet.
  Watcher(std::string master, Interval interval, bool patient, Time now);

  void take(const Answer& answer, Time now);
  View view(Time now) const;

  // The job is over, or can never be reached: how it ended, and the exit status.
  struct End {
    std::string text;  // for people; "" if `error` says it
    std::optional<Error> error;
    int status = 0;
  };
  const std::optional<End>& end() const { return end_; }

 private:
  void conclude(const std::string& error, Time now);

  View view_;
  Interval interval_;
  bool patient_;
  Time answered_;  // the last answer, or the begin
  std::optional<End> end_;
};

}  // namespace embers
