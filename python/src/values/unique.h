#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// unique, unique_strings, sum_rows and add_rows: keys that occur more than once, and the gradients of such
// keys.
void define_unique(pybind11::module_& module);

}  // namespace embers::python
