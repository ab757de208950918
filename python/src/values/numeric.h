#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// pair_products, second_order and their gradients: interactions of fields, which embers.torch makes autograd
// functions. tune_malloc: see base/tune_malloc.h.
void define_numeric(pybind11::module_& module);

}  // namespace embers::python
