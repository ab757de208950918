#include "python/src/calls/errors.h"

#include "base/errors.h"

namespace embers::python {
namespace py = pybind11;
namespace {

void raise(const Error& error) {
  const py::object type =
      py::module_::import("embers.errors").attr("class_of")(py::str(std::string(name(error.code()))));
  // Paths and keys in a message may be any bytes.
  const auto message = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
      error.what(), static_cast<Py_ssize_t>(std::strlen(error.what())), "backslashreplace"));
  PyErr_SetObject(type.ptr(), message.ptr());
}

}  // namespace

void translate_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace embers::python
