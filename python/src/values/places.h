#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "python/src/values/keys.h"
#include "schema/ids.h"

namespace embers::python {

// The places of keys among those that are unique, in the order in which they first occur.
struct Places {
  Keys unique;
  std::vector<int32_t> place;
};

// Needs no GIL.
Places places_of(const KeyList& keys);

// The unique ones as Python has them: an int64 array; of strings a list, or an array if `given`, which `keys`
// are of, was one.
pybind11::object unique_of(const pybind11::object& given, const KeyList& keys, const Places& found);

}  // namespace embers::python
