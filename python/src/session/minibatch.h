#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "python/src/session/joined.h"

namespace embers::python {

// Embers' Minibatch as Python's object.
pybind11::object minibatch_object(std::shared_ptr<const Joined> joined, client::Minibatch minibatch);

void define_minibatch(pybind11::module_& module);

}  // namespace embers::python
