#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// pair_products and pair_products_gradient: DLRM's interaction, which embers.torch makes an autograd
// function. tune_malloc: see base/tune_malloc.h.
void define_numeric(pybind11::module_& module);

}  // namespace embers::python
