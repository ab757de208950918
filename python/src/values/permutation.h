#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// permuted: the random order in which sampler.py goes through the records of an epoch.
void define_permutation(pybind11::module_& module);

}  // namespace embers::python
