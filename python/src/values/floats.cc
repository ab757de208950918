#include "python/src/values/floats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"

namespace embers::python {
namespace py = pybind11;
namespace {

std::string text_of(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const py::ssize_t size : shape) sizes.push_back(size < 0 ? "n" : std::to_string(size));
  return fmt::format("({}{})", fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
}

py::array checked(const py::object& given, const Shape& shape, const std::string& what) {
  if (!py::isinstance<py::array>(given))
    fail(ErrorCode::kInvalid, "{} is a {}: give a NumPy array of float32 of shape {}", what,
         std::string(py::str(py::type::of(given).attr("__name__"))), text_of(shape));
  const auto array = py::reinterpret_borrow<py::array>(given);
  if (!py::isinstance<py::array_t<float>>(array))
    fail(ErrorCode::kInvalid, "{} is of {}: give float32, as x.astype('float32') does", what,
         std::string(py::str(array.dtype())));
  const Shape found(array.shape(), array.shape() + array.ndim());
  bool same = found.size() == shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i) same = shape[i] < 0 || shape[i] == found[i];
  if (!same)
    fail(ErrorCode::kInvalid, "{} has the shape {}, but {} is needed", what, text_of(found), text_of(shape));
  if ((array.flags() & py::array::c_style) == 0)
    fail(ErrorCode::kInvalid, "{} is not contiguous: give np.ascontiguousarray of it", what);
  return array;
}

}  // namespace

py::array view(std::span<const float> values, const Shape& shape, std::shared_ptr<const void> owner,
               bool writeable) {
  const py::capsule base(new std::shared_ptr<const void>(std::move(owner)),
                         [](void* kept) { delete static_cast<std::shared_ptr<const void>*>(kept); });
  py::array array(py::dtype::of<float>(), shape, values.data(), base);
  if (!writeable) py::detail::array_proxy(array.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

std::span<const float> floats_of(const py::object& given, const Shape& shape, const std::string& what) {
  const py::array array = checked(given, shape, what);
  return {static_cast<const float*>(array.data()), static_cast<size_t>(array.size())};
}

std::span<float> place_of(const py::object& given, const Shape& shape, const std::string& what) {
  py::array array = checked(given, shape, what);
  if (!array.writeable())
    fail(ErrorCode::kInvalid, "{} is read-only: give an array that may be written to", what);
  return {static_cast<float*>(array.mutable_data()), static_cast<size_t>(array.size())};
}

py::array_t<float> column_of(const py::object& given, size_t size, const std::string& what) {
  const auto column = py::array_t<float, py::array::c_style | py::array::forcecast>::ensure(given);
  if (!column) {
    PyErr_Clear();
    fail(ErrorCode::kInvalid, "{} must be an array of numbers, one for each example", what);
  }
  if (static_cast<size_t>(column.size()) != size)
    fail(ErrorCode::kInvalid, "{} has {} numbers, but there are {} examples", what, column.size(), size);
  return column;
}

}  // namespace embers::python
