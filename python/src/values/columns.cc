#include "python/src/values/columns.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/errors.h"
#include "python/src/values/floats.h"

namespace embers::python {
namespace py = pybind11;
namespace {

using PlaceArray = py::array_t<int32_t, py::array::c_style>;

// The rows of each column's table, or what is added to them; of a table (size, dim).
struct Table {
  float* rows;
  size_t size;
};

size_t check_shapes(const std::vector<Table>& tables, const PlaceArray& places, py::ssize_t dim) {
  if (places.ndim() != 2 || places.shape(0) != static_cast<py::ssize_t>(tables.size()))
    fail(ErrorCode::kInvalid, "places must have a row for each of the {} tables", tables.size());
  const int32_t* place = places.data();
  bool fits = dim > 0;
  for (const Table& table : tables)
    for (py::ssize_t i = 0; i < places.shape(1); ++i) fits &= static_cast<uint32_t>(*place++) < table.size;
  if (!fits) fail(ErrorCode::kInvalid, "a place lies outside of its table");
  return static_cast<size_t>(places.shape(1));
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

// Calls work(std::integral_constant) with the floats of a row where that is a usual one, so that loops have
// its length, else with 0.
template <class Work>
void with_length(py::ssize_t dim, const Work& work) {
  switch (dim) {
    case 1:
      return work(std::integral_constant<size_t, 1>());
    case 8:
      return work(std::integral_constant<size_t, 8>());
    case 16:
      return work(std::integral_constant<size_t, 16>());
    case 32:
      return work(std::integral_constant<size_t, 32>());
    case 64:
      return work(std::integral_constant<size_t, 64>());
    default:
      return work(std::integral_constant<size_t, 0>());
  }
}

// Example after example, as `to` lies in memory.
template <size_t kDim>
void gather_rows(const std::vector<Table>& tables, const int32_t* place, size_t examples, size_t dim,
                 float* to) {
  constexpr size_t kExamplesAhead = 4;  // whose rows come from memory meanwhile
  const size_t floats = kDim > 0 ? kDim : dim, columns = tables.size();
  for (size_t e = 0; e < examples; ++e) {
    const bool is_more = e + kExamplesAhead < examples;
    for (size_t c = 0; c < columns; ++c, to += floats) {
      const int32_t* const at = place + c * examples + e;
      if (is_more) __builtin_prefetch(tables[c].rows + static_cast<size_t>(at[kExamplesAhead]) * floats);
      std::copy_n(tables[c].rows + static_cast<size_t>(*at) * floats, floats, to);
    }
  }
}

void gather_columns(const py::list& given, const PlaceArray& places, const py::object& out) {
  const py::ssize_t dim = dim_of(given);
  const std::vector<Table> tables = tables_of(given, dim, false);
  const size_t examples = check_shapes(tables, places, dim);
  float* const to = place_of(out, {places.shape(1), places.shape(0) * dim}, "out").data();
  const py::gil_scoped_release free;
  with_length(dim, [&](auto length) {
    gather_rows<length>(tables, places.data(), examples, static_cast<size_t>(dim), to);
  });
}

// A matrix whose rows may be parts of longer ones, as the gradient of what was concatenated is.
const float* strided_floats(const py::object& given, py::ssize_t rows, py::ssize_t columns, size_t& stride) {
  constexpr py::ssize_t kSize = sizeof(float);
  if (py::isinstance<py::array_t<float>>(given)) {
    const auto array = given.cast<py::array_t<float>>();
    if (array.ndim() == 2 && array.shape(0) == rows && array.shape(1) == columns &&
        array.strides(1) == kSize && array.strides(0) >= columns * kSize && array.strides(0) % kSize == 0) {
      stride = static_cast<size_t>(array.strides(0) / kSize);
      return array.data();
    }
  }
  stride = static_cast<size_t>(columns);
  return floats_of(given, {rows, columns}, "the gradient").data();
}

// Table after table, whose rows stay in the cache while they are added to.
template <size_t kDim>
void add_to_rows(const std::vector<Table>& tables, const int32_t* place, size_t examples, size_t dim,
                 const float* from, size_t stride) {
  constexpr size_t kExamplesAhead = 16;
  const size_t floats = kDim > 0 ? kDim : dim;
  for (const Table& table : tables) {
    for (size_t e = 0; e < examples; ++e) {
      if (e + kExamplesAhead < examples) {
        __builtin_prefetch(table.rows + static_cast<size_t>(place[e + kExamplesAhead]) * floats, 1);
        __builtin_prefetch(from + (e + kExamplesAhead) * stride);
      }
      float* const sum = table.rows + static_cast<size_t>(place[e]) * floats;
      const float* const row = from + e * stride;
#pragma GCC ivdep  // a table's rows are not the gradient's
      for (size_t k = 0; k < floats; ++k) sum[k] += row[k];
    }
    place += examples;
    from += floats;
  }
}

void add_columns(const py::list& given, const PlaceArray& places, const py::object& gradient) {
  const py::ssize_t dim = dim_of(given);
  const std::vector<Table> tables = tables_of(given, dim, true);
  const size_t examples = check_shapes(tables, places, dim);
  size_t stride = 0;
  const float* const from = strided_floats(gradient, places.shape(1), places.shape(0) * dim, stride);
  const py::gil_scoped_release free;
  with_length(dim, [&](auto length) {
    add_to_rows<length>(tables, places.data(), examples, static_cast<size_t>(dim), from, stride);
  });
}

}  // namespace

void define_columns(py::module_& module) {
  module.def("gather_columns", &gather_columns, py::arg("tables"), py::arg("places"), py::arg("out"),
             "gather_columns(tables: list of float32 (keys, dim), places int32 (tables, n), out float32 (n, "
             "tables * dim))\n\n"
             "Copies the row at each place.");
  module.def("add_columns", &add_columns, py::arg("tables"), py::arg("places"), py::arg("gradient"),
             "add_columns(tables: list of float32 (keys, dim), places int32 (tables, n), gradient float32 "
             "(n, tables * dim))\n\n"
             "Adds to the row at each place, in order.");
}

}  // namespace embers::python
