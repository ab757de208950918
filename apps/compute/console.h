#pragma once

#include <string>

#include "apps/process/progress_display.h"
#include "base/log/log_writer.h"
#include "master/master.h"
#include "master/report.h"

namespace embers {

// Shows a running job: its progress, and a line for each event. Waits for nobody.
//
// *Thread safety*: all members from any thread; the main thread and the master's actor both have something to
// say.
class Console {
 public:
  explicit Console(LogWriter& out) : out_(out), progress_(out) {}
  void progress(const Progress& p);
  void event(const std::string& line);
  // Takes the progress line away.
  void finish() { progress_.finish(); }

 private:
  LogWriter& out_;
  ProgressDisplay progress_;
};

// "1 shard", "2 shards".
std::string counted(uint64_t n, const char* thing, const char* plural = "s");

// Sets the callbacks that show the job and hand its result to `end`.
void show_on(Console& console, MasterConfig& config);

// Writes the report as JSON to `report_file` ("" for nowhere; under a temporary name first), and then prints
// the result for people (`verbose`: with histograms), which may have to wait for its reader. Throws the job's
// error, if it ended with one.
void conclude(const JobResult& result, const std::string& report_file, bool verbose);

}  // namespace embers
