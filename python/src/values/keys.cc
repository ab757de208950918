#include "python/src/values/keys.h"

#include "base/errors.h"

namespace embers::python {
namespace py = pybind11;
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& given) {
  fail(ErrorCode::kInvalid,
       "keys of {} are given as {}: give an array of integers, or a list or an array of str or bytes", what,
       given);
}

std::string type_of(const py::handle& object) { return py::str(py::type::of(object).attr("__name__")); }

// Appends a code point as UTF-8; false for one that has no encoding.
bool append(std::string& text, uint32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return false;
  if (c < 0x80) return text.push_back(static_cast<char>(c)), true;
  if (c < 0x800) {
    text.push_back(static_cast<char>(0xc0 | c >> 6));
  } else {
    if (c < 0x10000) {
      text.push_back(static_cast<char>(0xe0 | c >> 12));
    } else {
      text.push_back(static_cast<char>(0xf0 | c >> 18));
      text.push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    }
    text.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
  }
  text.push_back(static_cast<char>(0x80 | (c & 0x3f)));
  return true;
}

// Lists within a list must have one length.
py::array array_of(const py::tuple& items, const std::string& what) {
  try {
    return py::module_::import("numpy").attr("asarray")(items).cast<py::array>();
  } catch (py::error_already_set& e) {
    if (!e.matches(PyExc_ValueError) && !e.matches(PyExc_TypeError) && !e.matches(PyExc_OverflowError)) throw;
    fail(ErrorCode::kInvalid,
         "keys of {} are given as a list that is no array: its lists must have one length, or be joined into "
         "one "
         "({})",
         what, std::string(py::str(e.value())));
  }
}

}  // namespace

KeyList::KeyList(const py::object& given, const std::string& what) { take(given, what); }

void KeyList::take(const py::object& given, const std::string& what) {
  if (py::isinstance<py::str>(given) || py::isinstance<py::bytes>(given))
    refuse(what, fmt::format("one {}", type_of(given)));
  if (py::isinstance<py::list>(given) || py::isinstance<py::tuple>(given)) {
    const py::tuple items = py::tuple(given);  // a list may be changed meanwhile
    const bool strings =
        items.empty() || py::isinstance<py::str>(items[0]) || py::isinstance<py::bytes>(items[0]);
    if (strings && !items.empty()) return take_objects(items, what);
    const py::array array = array_of(items, what);
    return take_array(array.size() == 0 ? array.attr("astype")("int64").cast<py::array>() : array, what);
  }
  if (py::isinstance<py::array>(given)) return take_array(py::reinterpret_borrow<py::array>(given), what);
  if (!py::hasattr(given, "__array__")) refuse(what, type_of(given));
  take_array(py::module_::import("numpy").attr("asarray")(given), what);
}

void KeyList::take_array(const py::array& array, const std::string& what) {
  shape_.assign(array.shape(), array.shape() + array.ndim());
  const char kind = array.dtype().kind();
  if (kind == 'i' || kind == 'u') {
    if (kind == 'u' && array.itemsize() == 8 && array.size() > 0 &&
        py::module_::import("numpy").attr("max")(array).cast<uint64_t>() > INT64_MAX)
      fail(ErrorCode::kInvalid, "a key of {} is above 2^63 - 1: keys are int64", what);
    // Contiguous, native int64: the array itself, where it is that already.
    const auto keys = py::array_t<int64_t, py::array::c_style | py::array::forcecast>::ensure(array);
    if (!keys) throw py::error_already_set();
    ints_ = {keys.data(), static_cast<size_t>(keys.size())};
    kept_ = keys;
    return;
  }
  are_strings_ = true;
  if (kind == 'U') return take_unicode(array, what);
  if (kind == 'S') {
    const py::array keys = py::module_::import("numpy").attr("ascontiguousarray")(array);
    const auto* const bytes = static_cast<const char*>(keys.data());
    const auto size = static_cast<size_t>(keys.itemsize());
    strings_.reserve(static_cast<size_t>(keys.size()));
    for (py::ssize_t i = 0; i < keys.size(); ++i) {
      std::string_view key(bytes + static_cast<size_t>(i) * size, size);
      while (!key.empty() && key.back() == '\0') key.remove_suffix(1);  // NumPy's padding
      strings_.push_back(key);
    }
    kept_ = keys;
    return;
  }
  if (kind == 'O') return take_objects(py::tuple(py::list(array.attr("ravel")())), what);
  refuse(what, fmt::format("an array of {}", std::string(py::str(array.dtype()))));
}

void KeyList::take_unicode(const py::array& array, const std::string& what) {
  const auto keys = py::module_::import("numpy").attr("ascontiguousarray")(array, "=U").cast<py::array>();
  const auto* const codes = static_cast<const uint32_t*>(keys.data());
  const size_t width = static_cast<size_t>(keys.itemsize()) / sizeof(uint32_t);
  const auto count = static_cast<size_t>(keys.size());
  std::vector<size_t> ends;
  ends.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    size_t length = width;
    while (length > 0 && codes[i * width + length - 1] == 0) --length;  // NumPy's padding
    for (size_t c = 0; c < length; ++c)
      if (!append(text_, codes[i * width + c]))
        fail(ErrorCode::kInvalid, "key {} of {} is a str that has no UTF-8 encoding: give bytes", i, what);
    ends.push_back(text_.size());
  }
  strings_.reserve(count);
  for (size_t i = 0, begin = 0; i < count; begin = ends[i++])
    strings_.push_back(std::string_view(text_).substr(begin, ends[i] - begin));
  kept_ = keys;
}

void KeyList::take_objects(const py::tuple& items, const std::string& what) {
  are_strings_ = true;
  if (shape_.empty()) shape_ = {static_cast<py::ssize_t>(items.size())};
  strings_.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* const item = PyTuple_GET_ITEM(items.ptr(), static_cast<py::ssize_t>(i));
    Py_ssize_t size = 0;
    if (PyUnicode_Check(item)) {
      const char* const text = PyUnicode_AsUTF8AndSize(item, &size);  // the str keeps it
      if (text == nullptr) {
        PyErr_Clear();
        fail(ErrorCode::kInvalid, "key {} of {} is a str that has no UTF-8 encoding: give bytes", i, what);
      }
      strings_.emplace_back(text, static_cast<size_t>(size));
    } else if (PyBytes_Check(item)) {
      strings_.emplace_back(PyBytes_AS_STRING(item), static_cast<size_t>(PyBytes_GET_SIZE(item)));
    } else {
      fail(ErrorCode::kInvalid,
           "key {} of {} is of type {}{}: give integers within int64 only, or str and bytes only", i, what,
           type_of(item), i > 0 ? ", among strings" : "");
    }
  }
  kept_ = items;
}

}  // namespace embers::python
