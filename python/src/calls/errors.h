#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// From now on, an embers::Error that leaves a function of the module is raised as the class of
// embers/errors.py for its code, with the same message.
void translate_errors();

}  // namespace embers::python
