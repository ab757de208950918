#include "python/src/calls/calls.h"

#include <cmath>

#include "base/errors.h"
#include "python/src/calls/log.h"

namespace embers::python {
namespace py = pybind11;

Call::Call(uint64_t generation) {
  if (generation != fork_generation())
    fail(ErrorCode::kInvalid, "connected before fork: connect again here, with embers.connect()");
}

Call::~Call() { hand_log_to_python(); }

Deadline deadline_of(const std::optional<double>& seconds) {
  if (!seconds) return std::nullopt;
  if (std::isnan(*seconds)) fail(ErrorCode::kInvalid, "a timeout is a number of seconds, not nan");
  constexpr double kYear =
      365 * 24 * 3600;  // longer than anybody waits, and short enough for the clock's range
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::clamp(*seconds, 0.0, kYear)));
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace embers::python
