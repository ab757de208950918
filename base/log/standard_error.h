#pragma once

#include <string>
#include <string_view>

#include "base/log/log_writer.h"

namespace embers {

// Everything that this process says on its standard error: log, progress, errors. Results go to standard
// output. Lives until the process has gone.
LogWriter& standard_error();

// The line with the time of day before it, as lines of the log and of progress have.
std::string at_present(std::string_view line);

// Why the process ends, for people: "embers: error: WHAT".
void say_error(std::string_view what);

// Lets the reader catch up, for at most a second: results that follow on standard output should come later.
void flush_standard_error();

// For the end of a process: lets the reader catch up, for at most three seconds. If it is slow, errors come
// before all other lines.
void say_last_words();

// From now on a process that aborts, is ended by an uncaught exception, or accesses memory that is not its
// own lets the reader catch up first. Once, in main().
void say_last_words_in_crashes();

}  // namespace embers
