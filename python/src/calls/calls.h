#pragma once

#include <pybind11/pybind11.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>

#include "base/forks.h"
#include "python/src/calls/helpers.h"

// How a call from Python waits for C++: without the GIL, in slices between which Python's signals have their
// turn, so that Ctrl-C ends it.
namespace embers::python {

// Every function that touches connections begins with one: raises what a forked child must be told. When it
// goes, it hands what the library has logged to Python. Holds the GIL.
class Call {
 public:
  // `generation`: fork_generation() of when the object that is called was made.
  explicit Call(uint64_t generation);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

inline constexpr auto kSlice = std::chrono::milliseconds(50);

using Deadline = std::optional<std::chrono::steady_clock::time_point>;
// None: without an end. Raises a TypeError for what is not a number of seconds.
Deadline deadline_of(const std::optional<double>& seconds);

// Lets Python's signal handlers run; throws what they raise. Holds the GIL.
void check_signals();

// Calls step(slice), which waits this long at most and tells whether it is done, until it is. False when time
// is up. Holds the GIL, but not in the steps.
template <class Step>
bool wait_in_slices(const Deadline& deadline, Step&& step) {
  using Clock = std::chrono::steady_clock;
  for (;;) {
    std::chrono::duration<double> slice = kSlice;
    if (deadline)
      slice = std::clamp<std::chrono::duration<double>>(*deadline - Clock::now(), slice.zero(), slice);
    {
      const pybind11::gil_scoped_release free;
      if (step(slice)) return true;
    }
    check_signals();
    if (deadline && Clock::now() >= *deadline) return false;
  }
}

// What a work in a helper's thread came to.
template <class Result>
struct Promised {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Result> result;
  std::exception_ptr error;

  void keep(std::optional<Result> what, std::exception_ptr why = nullptr) {
    const std::lock_guard lock(mutex);
    result = std::move(what);
    error = why;
    done.notify_all();
  }
  bool wait_for(std::chrono::duration<double> time) {
    std::unique_lock lock(mutex);
    return done.wait_for(lock, time, [this] { return result || error; });
  }
};

// Runs `work`, which may block for long, and returns what it returns, or throws what it throws. When a signal
// handler raises something, that is thrown at once, and the work goes on without anybody: then `kept`, what
// it uses of Python's, is never let go of. Holds the GIL, but the work does not.
template <class Result>
Result run_interruptible(std::function<Result()> work, std::shared_ptr<const void> kept = nullptr) {
  const auto promised = std::make_shared<Promised<Result>>();
  run_in_helper([promised, work = std::move(work)]() mutable {
    std::optional<Result> result;
    std::exception_ptr error;
    try {
      result.emplace(work());
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;  // before anybody goes on who may look at what it used
    promised->keep(std::move(result), error);
  });
  try {
    wait_in_slices(std::nullopt, [&](auto slice) { return promised->wait_for(slice); });
  } catch (pybind11::error_already_set&) {
    new std::shared_ptr<const void>(std::move(kept));
    throw;
  }
  if (promised->error) std::rethrow_exception(promised->error);
  return std::move(*promised->result);
}

}  // namespace embers::python
