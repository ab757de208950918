#pragma once

#include <pybind11/pybind11.h>

namespace embers::python {

// JobFile: a job file, as a worker of its Python model reads it; and its data.
void define_job_file(pybind11::module_& module);

}  // namespace embers::python
