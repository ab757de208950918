#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// gather_columns and add_columns: lookups in many tables at once, one id of each table in every example.
void define_columns(pybind11::module_& module);

}  // namespace embers::python
