#include "python/src/values/permutation.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "base/errors.h"

namespace embers::python {
namespace py = pybind11;
namespace {

using Positions = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;

// The finalizer of splitmix64.
uint64_t hash(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// A Feistel network over the numbers of 2 * half bits, a round for each key.
uint64_t network(uint64_t x, unsigned half, const std::vector<uint64_t>& keys) {
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t left = x >> half, right = x & mask;
  for (const uint64_t key : keys) {
    const uint64_t next = left ^ (hash(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half) | right;
}

py::array_t<int64_t> permuted(const Positions& positions, int64_t n, const std::vector<uint64_t>& keys) {
  const int64_t* const from = positions.data();
  const auto count = static_cast<size_t>(positions.size());
  if (std::any_of(from, from + count, [n](int64_t position) { return position < 0 || position >= n; }))
    fail(ErrorCode::kInvalid, "a position lies outside of the {} that are permuted", n);
  py::array_t<int64_t> out(positions.size());
  int64_t* const to = out.mutable_data();
  const py::gil_scoped_release free;
  const auto size = static_cast<uint64_t>(n);
  const unsigned half = std::max(1u, (static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2);
  // Many at a time, so that they do not wait for each other: each step brings a quarter of them home, or
  // more.
  std::array<size_t, 256> left;  // places of those that are not within n yet
  for (size_t begin = 0; begin < count; begin += left.size()) {
    size_t outside = std::min(left.size(), count - begin);
    std::iota(left.begin(), left.begin() + static_cast<ptrdiff_t>(outside), begin);
    std::copy_n(from + begin, outside, to + begin);
    while (outside > 0) {
      const size_t walking = std::exchange(outside, 0);
      for (size_t i = 0; i < walking; ++i) {
        const size_t place = left[i];
        const uint64_t x = network(static_cast<uint64_t>(to[place]), half, keys);
        to[place] = static_cast<int64_t>(x);
        left[outside] = place;
        outside += x >= size;
      }
    }
  }
  return out;
}

}  // namespace

void define_permutation(py::module_& module) {
  module.def(
      "permuted", &permuted, py::arg("positions"), py::arg("n"), py::arg("keys"),
      "permuted(positions int64 (m,), n, keys: list of uint64) -> int64 (m,)\n\n"
      "The elements at these positions of the random order of 0..n-1 that the keys decide: a Feistel network "
      "with a round for each over the next power of four, walked until it is within n.");
}

}  // namespace embers::python
