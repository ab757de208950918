#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "data/dataset.h"

namespace embers::python {

// Reader, Reading, Records: minibatches of a data set, read on another thread.
void define_job_reader(pybind11::module_& module);

// A Reader of Python. `shuffle`: the order of an epoch, or of the files.
pybind11::object reader_object(std::shared_ptr<const data::Dataset> dataset, bool shuffle);

}  // namespace embers::python
