#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace embers::python {

using Shape = std::vector<pybind11::ssize_t>;

// An array over memory that `owner` keeps. No copy.
pybind11::array view(std::span<const float> values, const Shape& shape, std::shared_ptr<const void> owner,
                     bool writeable);

// The memory of an array of this shape, without a copy: float32, contiguous in C order. Anything else is
// refused with kInvalid, naming `what`. With a negative first size any number of rows will do.
std::span<const float> floats_of(const pybind11::object& given, const Shape& shape, const std::string& what);
// The same, to be written to.
std::span<float> place_of(const pybind11::object& given, const Shape& shape, const std::string& what);
// One number of each of `size` examples, in any shape; also of float64 or bool, converted.
pybind11::array_t<float> column_of(const pybind11::object& given, size_t size, const std::string& what);

}  // namespace embers::python
