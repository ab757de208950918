#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/system_config.h"
#include "base/host.h"

namespace embers {

// This thread, and those that it starts from now on, do not interrupt a running thread the moment they wake
// (SCHED_BATCH): where all cores are busy, threads that hand a message on would stop one another in the
// middle of its rows. Leaves alone a policy that the process was given (chrt).
void run_as_batch();

// Makes calls of the system that wait go on after this signal, which is handled. Without it those of
// libraries would fail.
void restart_calls_after(int signal);

// While it lives, calls `stop` with the signal's name (in a thread of its own) at the first SIGINT or
// SIGTERM; a second one ends the process at once with status 128 + its number. One at a time.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(const std::string& signal)> stop);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// While it lives, calls `resized` (in a thread of its own) whenever the size of the process's terminal has
// changed. One at a time.
class ResizeWatch {
 public:
  explicit ResizeWatch(std::function<void()> resized);
  ~ResizeWatch();
  ResizeWatch(const ResizeWatch&) = delete;
  ResizeWatch& operator=(const ResizeWatch&) = delete;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// Ends the process with this status, once its results and its last words are out, without waiting for actors
// that may be in the middle of something.
[[noreturn]] void end_process(int status);

// The CPUs of --pin; empty without it. kInvalid for what is not a CPU, or not an allowed one.
std::vector<int> parse_pin(const std::string& list);

}  // namespace embers
