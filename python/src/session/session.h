#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// Session, and the values that a worker tells of its model.
void define_session(pybind11::module_& module);

}  // namespace embers::python
