#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace embers {

// Writes lines to a descriptor in a thread of its own, so that nobody else waits for whoever reads there: a
// pager, a stopped terminal, a disk. Lines that are waiting are bounded. Beyond that, the oldest are dropped
// and counted, and the reader is told in their place:
//
//   … 123 lines were dropped, because whoever reads standard error is slow
//
// A line that cannot be written, for example because its reader has gone, is dropped and counted likewise;
// the next one is tried again.
//
// *Thread safety*: all members from any thread. Only flush(), wait_in_signal_handler() and the destructor
// wait.
class LogWriter {
 public:
  // Of the lines that are waiting. One line is kept however long it is.
  struct Limits {
    size_t lines = 1000;
    size_t bytes = 256 << 10;
  };

  // Writes to `fd`, which people know as `name`. Its thread starts with the first line.
  LogWriter(int fd, std::string name, Limits limits);
  LogWriter(int fd, std::string name) : LogWriter(fd, std::move(name), Limits()) {}
  // Gives what is waiting a second to be written. A thread that is stuck in a write is left behind, and ends
  // once that returns.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void line(std::string text);
  // Why a process ends: dropped only if nothing but errors is waiting.
  void error(std::string text);
  // How far the work is. Replaces a progress line that is still waiting; this is not counted as dropped. On a
  // terminal it is redrawn in place until the next line, or until end_progress().
  void progress(std::string text);
  void end_progress();
  bool is_terminal() const;
  size_t columns() const;  // of the terminal, as wide as it is now; 80 if it does not say

  // Waits until everything said so far has been written or dropped. False if this took longer than `most`.
  bool flush(std::chrono::milliseconds most);
  // Drops and counts what is waiting besides errors, if there are any.
  void make_way_for_errors();
  // As flush(), for everything, where nothing may be locked: in a handler of a signal.
  void wait_in_signal_handler(std::chrono::milliseconds most) const;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
};

}  // namespace embers
