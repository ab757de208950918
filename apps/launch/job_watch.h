#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "apps/launch/policy.h"
#include "client/admin.h"
#include "schema/status.h"

namespace embers::launch {

// Asks the master again and again how its job stands, and tells it to stop, in a thread of its own.
//
// *Thread safety*: all members from the thread that made it.
class JobWatch {
 public:
  struct Answer {
    Status status;
    Seconds asked = 0;
  };

  // `clock` may be called by any thread.
  JobWatch(const client::AdminOptions& options, std::function<Seconds()> clock);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  // The latest answer, once.
  std::optional<Answer> take_answer();
  // Why there has been none for a while, once until there is one. That the job has ended is no trouble.
  std::optional<std::string> take_trouble();
  // The job is to save and end. The master is told until it knows.
  void stop(const std::string& why);
  // Whether it could not be told at the first attempt, once.
  bool take_stop_failed();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// What of the answer concerns a launcher that has started members of these labels.
JobView view_of(const Status& status, const std::set<std::string>& labels);

}  // namespace embers::launch
