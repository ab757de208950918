#pragma once

#include <mutex>
#include <string>

#include "master/master.h"
#include "master/report.h"

namespace embers {

// Shows a running job: a bar that is redrawn on a terminal, plain log lines elsewhere.
//
// *Thread safety*: all members from any thread; the main thread and the master's actor both have something to
// say.
class Console {
 public:
  Console();
  void progress(const Progress& p);
  void event(const std::string& line);
  // Ends the bar's line.
  void finish();

 private:
  void clear_bar();  // under mutex_

  const bool terminal_;
  std::mutex mutex_;  // guards what is written, and the bar
  bool bar_shown_ = false;
};

// Sets the callbacks that show the job and hand its result to `end`.
void show_on(Console& console, MasterConfig& config);

// Prints the result for people and writes `report` as JSON where asked ("" for nowhere, written under a
// temporary name first). Throws the job's error, if it ended with one.
void conclude(const JobResult& result, const std::string& report_file);

}  // namespace embers
