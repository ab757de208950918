#include "python/src/columns.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <vector>

#include "base/errors.h"
#include "python/src/floats.h"
#include "python/src/keys.h"
#include "python/src/places.h"

namespace embers::python {
namespace py = pybind11;
namespace {

using PlaceArray = py::array_t<int32_t, py::array::c_style>;

py::tuple unique_columns(const py::list& given) {
  std::vector<KeyList> columns;
  columns.reserve(given.size());
  for (const py::handle column : given) {
    columns.emplace_back(py::reinterpret_borrow<py::object>(column), "a column of keys");
    if (columns.back().size() != columns.front().size())
      fail(ErrorCode::kInvalid, "columns must be equally long: {} and {} keys were given",
           columns.front().size(), columns.back().size());
  }
  const size_t width = columns.size(), examples = width == 0 ? 0 : columns.front().size();
  PlaceArray places({static_cast<py::ssize_t>(examples), static_cast<py::ssize_t>(width)});
  int32_t* const to = places.mutable_data();
  std::vector<Places> found(width);
  {
    const py::gil_scoped_release free;
    for (size_t c = 0; c < width; ++c) {
      found[c] = places_of(columns[c]);
      for (size_t i = 0; i < examples; ++i) to[i * width + c] = found[c].place[i];
    }
  }
  py::list unique;
  for (size_t c = 0; c < width; ++c)
    unique.append(unique_of(py::reinterpret_borrow<py::object>(given[c]), columns[c], found[c]));
  return py::make_tuple(unique, places);
}

// The rows of each column's table, or what is added to them; of a table (size, dim).
struct Table {
  float* rows;
  size_t size;
};

size_t check_shapes(const std::vector<Table>& tables, const PlaceArray& places, py::ssize_t dim) {
  if (places.ndim() != 2 || places.shape(1) != static_cast<py::ssize_t>(tables.size()))
    fail(ErrorCode::kInvalid, "places must have a column for each of the {} tables", tables.size());
  const int32_t* place = places.data();
  bool fits = dim > 0;
  for (py::ssize_t i = 0; i < places.shape(0); ++i)
    for (const Table& table : tables) fits &= static_cast<uint32_t>(*place++) < table.size;
  if (!fits) fail(ErrorCode::kInvalid, "a place lies outside of its table");
  return static_cast<size_t>(places.shape(0));
}

std::vector<Table> tables_of(const py::list& given, py::ssize_t dim, bool writes) {
  std::vector<Table> tables;
  for (const py::handle rows : given) {
    const auto object = py::reinterpret_borrow<py::object>(rows);
    const std::span<const float> floats = writes
                                              ? std::span<const float>(place_of(object, {-1, dim}, "a table"))
                                              : floats_of(object, {-1, dim}, "a table");
    tables.push_back(
        {const_cast<float*>(floats.data()), dim == 0 ? 0 : floats.size() / static_cast<size_t>(dim)});
  }
  return tables;
}

py::ssize_t dim_of(const py::list& tables) {
  if (tables.empty() || !py::isinstance<py::array>(tables[0]) || tables[0].cast<py::array>().ndim() != 2)
    fail(ErrorCode::kInvalid, "tables must be arrays of float32 with a row for each key");
  return tables[0].cast<py::array>().shape(1);
}

void gather_columns(const py::list& given, const PlaceArray& places, const py::object& out) {
  const py::ssize_t dim = dim_of(given);
  const std::vector<Table> tables = tables_of(given, dim, false);
  const size_t examples = check_shapes(tables, places, dim);
  float* to = place_of(out, {places.shape(0), places.shape(1) * dim}, "out").data();
  const int32_t* place = places.data();
  const py::gil_scoped_release free;
  const auto width = static_cast<size_t>(dim);
  for (size_t i = 0; i < examples; ++i)
    for (const Table& table : tables) {
      const float* const row = table.rows + static_cast<size_t>(*place++) * width;
      std::copy_n(row, width, to);
      to += width;
    }
}

void add_columns(const py::list& given, const PlaceArray& places, const py::object& gradient) {
  const py::ssize_t dim = dim_of(given);
  const std::vector<Table> tables = tables_of(given, dim, true);
  const size_t examples = check_shapes(tables, places, dim);
  const float* from = floats_of(gradient, {places.shape(0), places.shape(1) * dim}, "the gradient").data();
  const int32_t* place = places.data();
  const py::gil_scoped_release free;
  const auto width = static_cast<size_t>(dim);
  for (size_t i = 0; i < examples; ++i)
    for (const Table& table : tables) {
      float* __restrict const sum = table.rows + static_cast<size_t>(*place++) * width;
      for (size_t c = 0; c < width; ++c) sum[c] += from[c];
      from += width;
    }
}

}  // namespace

void define_columns(py::module_& module) {
  module.def(
      "unique_columns", &unique_columns, py::arg("columns"),
      "unique_columns(columns: list of keys (n,)) -> (list of unique keys, places int32 (n, columns))\n\n"
      "As unique(), or unique_strings(), of each.");
  module.def("gather_columns", &gather_columns, py::arg("tables"), py::arg("places"), py::arg("out"),
             "gather_columns(tables: list of float32 (keys, dim), places int32 (n, tables), out float32 (n, "
             "tables * dim))\n\n"
             "Copies the row at each place.");
  module.def("add_columns", &add_columns, py::arg("tables"), py::arg("places"), py::arg("gradient"),
             "add_columns(tables: list of float32 (keys, dim), places int32 (n, tables), gradient float32 "
             "(n, tables * dim))\n\n"
             "Adds to the row at each place, in order.");
}

}  // namespace embers::python
