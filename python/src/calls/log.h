#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// From now on, what the library logs waits in a queue: its threads must not run Python's code.
void queue_log();

// Gives what waits there to embers/log.py, which gives it to Python's logging. Throws nothing. Holds the GIL.
void hand_log_to_python() noexcept;

}  // namespace embers::python
