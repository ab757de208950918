#include "python/src/values/places.h"

#include <pybind11/numpy.h>

#include "model/lookup/dedupe.h"

namespace embers::python {
namespace py = pybind11;

Places places_of(const KeyList& keys) {
  Places found;
  found.place.resize(keys.size());
  const KeyKind kind = keys.are_strings() ? KeyKind::kBytes : KeyKind::kInt64;
  thread_local KeyIndex index;  // keeps its memory
  index.start(kind);
  if (keys.are_strings()) {
    Keys copy(KeyKind::kBytes);
    copy.reserve(keys.size());
    for (const std::string_view key : keys.strings()) copy.push_back(key);
    index.add(copy, false, found.place);
  } else {
    index.add(KeysView{KeyKind::kInt64, keys.ints(), {}, {}}, false, found.place);
  }
  found.unique = index.take();
  return found;
}

py::object unique_of(const py::object& given, const KeyList& keys, const Places& found) {
  if (!keys.are_strings()) {
    const auto ints = found.unique.view().ints;
    return py::array_t<int64_t>(static_cast<py::ssize_t>(ints.size()), ints.data());
  }
  std::vector<int64_t> first;  // where each unique key occurs first
  for (size_t i = 0; i < found.place.size(); ++i)
    if (static_cast<size_t>(found.place[i]) == first.size()) first.push_back(static_cast<int64_t>(i));
  if (py::isinstance<py::array>(given))
    return given.attr("ravel")()[py::array_t<int64_t>(static_cast<py::ssize_t>(first.size()), first.data())];
  const auto items = keys.kept().cast<py::tuple>();
  py::list list(first.size());
  for (size_t i = 0; i < first.size(); ++i) list[i] = items[static_cast<size_t>(first[i])];
  return list;
}

}  // namespace embers::python
