#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/table_spec.h"

namespace embers::storage {

// First values of a table's rows: a pure function of (seed, table name, key, column), never of order, worker,
// shard count or strategy. Names, definitions and defaults are Keras's (tf.keras.initializers). Fans: a lazy
// table has no vocabulary size, so fan_in and fan_out are both the dim unless input_dim is given (then fan_in
// = input_dim, fan_out = dim, as Keras computes them for an embeddings matrix). Of an owner's part of a table
// (TableSpec::first_column), columns and the dim for fans are those of whole rows.
class Initializer {
 public:
  // kInvalid naming table and the nearest known initializer or parameter.
  static std::unique_ptr<const Initializer> make(uint64_t seed, const TableSpec& table);
  virtual ~Initializer() = default;
  // out[keys.size() x dim]; rows whose skip[i] != 0 are left alone. Thread safe.
  virtual void fill(KeysView keys, std::span<float> out, std::span<const uint8_t> skip = {}) const = 0;
};

const std::vector<std::string>& initializer_names();

}  // namespace embers::storage
