#include "python/src/values/unique.h"

#include <algorithm>

#include "base/errors.h"
#include "python/src/values/floats.h"
#include "python/src/values/keys.h"
#include "python/src/values/places.h"

namespace embers::python {
namespace py = pybind11;
namespace {

py::array_t<int64_t> inverse_of(const Places& found, const Shape& shape) {
  py::array_t<int64_t> inverse(shape);
  std::copy(found.place.begin(), found.place.end(), inverse.mutable_data());
  return inverse;
}

py::tuple located(const py::object& given, const KeyList& keys) {
  Places found;
  {
    const py::gil_scoped_release free;
    found = places_of(keys);
  }
  return py::make_tuple(unique_of(given, keys, found), inverse_of(found, keys.shape()));
}

py::tuple unique(const py::object& given) {
  const KeyList keys(given, "unique()");
  if (keys.are_strings())
    fail(ErrorCode::kInvalid, "unique() takes integers: give strings to unique_strings()");
  return located(given, keys);
}

py::tuple unique_strings(const py::object& given) {
  const KeyList keys(given, "unique_strings()");
  if (!keys.are_strings() && keys.size() > 0)
    fail(ErrorCode::kInvalid, "unique_strings() takes str and bytes: give integers to unique()");
  return located(given, keys);
}

using PlaceArray = py::array_t<int64_t, py::array::c_style>;

// rows (..., dim), as they are added up.
struct Addends {
  explicit Addends(const py::object& rows) {
    if (!py::isinstance<py::array>(rows) || rows.cast<py::array>().ndim() < 1)
      fail(ErrorCode::kInvalid, "rows to add up must be an array of float32 with a row for each place");
    const auto array = rows.cast<py::array>();
    dim = array.shape(array.ndim() - 1);
    floats = floats_of(rows, Shape(array.shape(), array.shape() + array.ndim()), "the array of rows");
  }
  std::span<const float> floats;
  py::ssize_t dim = 0;
};

// Adds each row to that at its place.
void add(const Addends& rows, const PlaceArray& places, std::span<float> sums) {
  const auto dim = static_cast<size_t>(rows.dim);
  const size_t count = static_cast<size_t>(places.size()), size = dim == 0 ? 0 : sums.size() / dim;
  if (count * dim != rows.floats.size())
    fail(ErrorCode::kInvalid, "there are {} places for {} rows", count,
         dim == 0 ? 0 : rows.floats.size() / dim);
  const int64_t* const place = places.data();
  bool fits = true;
  {
    const py::gil_scoped_release free;
    const float* row = rows.floats.data();
    for (size_t i = 0; i < count && fits; ++i, row += dim) {
      fits = static_cast<uint64_t>(place[i]) < size;
      if (!fits) break;
      float* __restrict const sum = sums.data() + static_cast<size_t>(place[i]) * dim;
      for (size_t c = 0; c < dim; ++c) sum[c] += row[c];
    }
  }
  if (!fits) fail(ErrorCode::kInvalid, "a place lies outside of the {} rows", size);
}

py::array_t<float> sum_rows(const py::object& rows, const PlaceArray& places, size_t size) {
  const Addends addends(rows);
  py::array_t<float> sums({static_cast<py::ssize_t>(size), addends.dim});
  const std::span<float> to(sums.mutable_data(), static_cast<size_t>(sums.size()));
  std::fill(to.begin(), to.end(), 0.0f);
  add(addends, places, to);
  return sums;
}

void add_rows(const py::object& sums, const PlaceArray& places, const py::object& rows) {
  const Addends addends(rows);
  add(addends, places, place_of(sums, {-1, addends.dim}, "the array of sums"));
}

}  // namespace

void define_unique(py::module_& module) {
  module.def("unique", &unique, py::arg("keys"),
             "unique(keys) -> (unique int64 (m,), inverse int64 of the shape of keys)\n\n"
             "In the order in which keys first occur; keys == unique[inverse].");
  module.def("unique_strings", &unique_strings, py::arg("keys"),
             "unique_strings(keys) -> (unique, inverse int64 of the shape of keys)\n\n"
             "The same for a list of str and bytes, or an array of strings; unique is a list, or an array.");
  module.def("sum_rows", &sum_rows, py::arg("rows"), py::arg("places"), py::arg("size"),
             "sum_rows(rows float32 (..., dim), places int64 (...), size) -> float32 (size, dim)\n\n"
             "Adds each row to the row at its place, in order.");
  module.def("add_rows", &add_rows, py::arg("sums"), py::arg("places").noconvert(), py::arg("rows"),
             "add_rows(sums float32 (size, dim), places int64 (...), rows float32 (..., dim))\n\n"
             "The same, onto what `sums` has.");
}

}  // namespace embers::python
