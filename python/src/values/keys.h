#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace embers::python {

// Keys that Python gave, as the library takes them. Constant; views of it are valid as long as it lives, also
// without the GIL: it holds what they lie in.
class KeyList {
 public:
  // `given` is one of
  //   an array of integers of any type whose values fit into int64, of any shape
  //   an array of strings: NumPy's U, S or O, of any shape
  //   a list or tuple of int, or of str and bytes
  // str is encoded as UTF-8. kInvalid, naming `what` ("table 'user'"), for anything else.
  KeyList(const pybind11::object& given, const std::string& what);
  KeyList(const KeyList&) = delete;  // its strings may be views of its own text
  KeyList& operator=(const KeyList&) = delete;
  // Before it goes, as its making, holds the GIL.

  bool are_strings() const { return are_strings_; }
  size_t size() const { return are_strings_ ? strings_.size() : ints_.size(); }
  std::span<const int64_t> ints() const { return ints_; }
  std::span<const std::string_view> strings() const { return strings_; }
  // Of the array; a list's is its length.
  const std::vector<pybind11::ssize_t>& shape() const { return shape_; }
  // What was given, as a tuple (of strings in a list) or an array.
  const pybind11::object& kept() const { return kept_; }

 private:
  void take(const pybind11::object& given, const std::string& what);
  void take_array(const pybind11::array& array, const std::string& what);
  void take_unicode(const pybind11::array& array, const std::string& what);
  void take_objects(const pybind11::tuple& items, const std::string& what);

  bool are_strings_ = false;
  std::vector<pybind11::ssize_t> shape_;
  pybind11::object kept_;
  std::span<const int64_t> ints_;
  std::vector<std::string_view> strings_;
  std::string text_;  // of keys that had to be encoded
};

}  // namespace embers::python
