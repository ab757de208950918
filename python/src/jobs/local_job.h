#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// LocalJob: a job whose master and shards live in this process.
void define_local_job(pybind11::module_& module);

}  // namespace embers::python
