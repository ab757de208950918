#pragma once

#include <bit>
#include <span>

#include "base/floats/copy_floats.h"
#include "schema/table_spec.h"

namespace embers::storage {

// How the numbers of a row lie in the memory of a table: as float32, or as halves in the space of half as
// many floats, rounded up. Its slots, float32, follow.
class RowFormat {
 public:
  explicit RowFormat(const TableSpec& spec)
      : type_(spec.number_type),
        rounding_(spec.rounding),
        dim_(spec.dim),
        table_(hash_key(spec.name)),
        first_column_(spec.first_column) {}

  bool is_float32() const { return type_ == NumberType::kFloat32; }
  // The memory of a row, in floats.
  size_t floats() const { return is_float32() ? dim_ : (dim_ + 1) / 2; }

  void read(const float* row, float* out) const {
    if (is_float32())
      copy_floats(out, row, dim_);
    else
      from_halves(type_, reinterpret_cast<const uint16_t*>(row), {out, dim_});
  }
  // For a new or restored row: rounded to nearest.
  void write(float* row, const float* in) const {
    if (is_float32())
      copy_floats(row, in, dim_);
    else
      to_halves(type_, {in, dim_}, reinterpret_cast<uint16_t*>(row));
  }
  // Only for halves, which an update changed.
  void write_back(float* row, const float* in, uint64_t key_hash, uint64_t step) const {
    auto* const halves = reinterpret_cast<uint16_t*>(row);
    if (rounding_ == Rounding::kNearest)
      to_halves(type_, {in, dim_}, halves);
    else
      to_halves_stochastic(type_, {in, dim_}, key_hash ^ std::rotl(table_ + step, 32), halves, first_column_);
  }

 private:
  NumberType type_;
  Rounding rounding_;
  size_t dim_;
  uint64_t table_;  // a hash of its name
  uint32_t first_column_;
};

}  // namespace embers::storage
