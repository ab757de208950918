#pragma once

namespace embers {

// Descriptors 0, 1 and 2 are open from now on. A program may be started without some of them; then the first
// files and sockets that it opens would have these numbers, and get what is said to people. First in main().
void open_standard_streams();

// Sends what was printed to standard output on its way. Throws kDisk or kInvalid when not all of it could be
// written, now or earlier; but that whoever reads it has gone is no error.
void flush_results();

}  // namespace embers
