#pragma once

#include <compare>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/floats/exact_sum.h"
#include "schema/table_spec.h"
#include "storage/update_rules/update_rule.h"

namespace embers::storage {

// What Keras calls a variable: an embedding table, or one dense parameter (whose rows are its chunks).
struct Variable {
  TableId table = 0;
  std::string parameter;  // "" for a table
  friend auto operator<=>(const Variable&, const Variable&) = default;
};

// Squared norms of the gradients that one version applies: while they are collected, and in total.
using SquareSums = std::map<Variable, ExactSum>;
using SquaredNorms = std::map<Variable, double>;

void add(const SquareSums& part, SquareSums& sums);
SquaredNorms values(const SquareSums& sums);

// Gradient clipping as tf.keras.optimizers has it (clipvalue, clipnorm, global_clipnorm), for each table as
// its own rule says. The norm of a table is over all rows that a version gives a gradient to; the global norm
// is over all variables whose rule has global_clipnorm. Norms are exact sums of the rows' squared norms, so
// they do not depend on how rows are spread. What is infinite or NaN is left out: it is never applied.
class Clipper {
 public:
  // Throws Error for an unknown rule.
  explicit Clipper(std::span<const TableSpec> tables);

  bool active() const;
  bool needs_norms() const;
  // Adds the squared norms of values[keys.size() x dim] of a table that needs them.
  void add_squares(TableId table, KeysView keys, std::span<const float> values, SquareSums& sums) const;
  // Clips values[keys.size() x dim]. `norms`: of all gradients of the version, on all owners; kInternal
  // naming the variable that is missing from it.
  void clip(TableId table, KeysView keys, std::span<float> values, const SquaredNorms& norms) const;

 private:
  Variable variable(TableId table, KeysView keys, size_t i) const;
  double factor(const Variable& variable, const SquaredNorms& norms) const;

  std::vector<Clipping> clipping_;  // by TableId, as those below
  std::vector<uint32_t> dims_;
  std::vector<std::string> names_;
};

}  // namespace embers::storage
