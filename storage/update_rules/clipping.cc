#include "storage/update_rules/clipping.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace embers::storage {
namespace {

double squared_norm(std::span<const float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * x;
  return squares;
}

// The factor of tf.clip_by_norm, which is 1 up to the limit.
double clip_factor(double squared, double limit) { return limit / std::max(std::sqrt(squared), limit); }

}  // namespace

void add(const SquareSums& part, SquareSums& sums) {
  for (const auto& [variable, sum] : part) sums[variable].add(sum);
}

SquaredNorms values(const SquareSums& sums) {
  SquaredNorms norms;
  for (const auto& [variable, sum] : sums) norms[variable] = sum.value();
  return norms;
}

Clipper::Clipper(std::span<const TableSpec> tables) {
  for (const TableSpec& table : tables) {
    clipping_.push_back(UpdateRule::make(table.update_rule)->clipping());
    dims_.push_back(table.dim);
    names_.push_back(table.name);
  }
}

bool Clipper::active() const {
  return std::any_of(clipping_.begin(), clipping_.end(),
                     [](const Clipping& c) { return c.value > 0 || c.needs_norms(); });
}

bool Clipper::needs_norms() const {
  return std::any_of(clipping_.begin(), clipping_.end(), [](const Clipping& c) { return c.needs_norms(); });
}

// The key of a dense parameter's chunk is "<name>#<chunk>".
Variable Clipper::variable(TableId table, KeysView keys, size_t i) const {
  if (names_[table] != kDenseTable) return {table, ""};
  const std::string_view key = keys.bytes_at(i);
  return {table, std::string(key.substr(0, key.rfind('#')))};
}

void Clipper::add_squares(TableId table, KeysView keys, std::span<const float> values,
                          SquareSums& sums) const {
  if (!clipping_[table].needs_norms()) return;
  const size_t dim = dims_[table];
  for (size_t i = 0; i < keys.size(); ++i) {
    ExactSum& sum = sums[variable(table, keys, i)];
    const double squares = squared_norm(values.subspan(i * dim, dim));
    if (std::isfinite(squares)) sum.add(squares);
  }
}

double Clipper::factor(const Variable& variable, const SquaredNorms& norms) const {
  const Clipping& clipping = clipping_[variable.table];
  if (clipping.global_norm > 0) {
    double squares = 0;
    for (const auto& [other, squared] : norms)
      if (clipping_.at(other.table).global_norm > 0) squares += squared;
    return clip_factor(squares, clipping.global_norm);
  }
  const auto found = norms.find(variable);
  if (found == norms.end())
    fail(ErrorCode::kInternal, "the norm of the gradient of table '{}' {} was not given",
         names_[variable.table], variable.parameter);
  return clip_factor(found->second, clipping.norm);
}

void Clipper::clip(TableId table, KeysView keys, std::span<float> values, const SquaredNorms& norms) const {
  const Clipping& clipping = clipping_[table];
  if (clipping.value > 0) {
    const auto limit = static_cast<float>(clipping.value);
    for (float& x : values) x = std::clamp(x, -limit, limit);
  }
  if (!clipping.needs_norms()) return;
  const size_t dim = dims_[table];
  Variable last;
  float scale = 1;
  for (size_t i = 0; i < keys.size(); ++i) {
    Variable now = variable(table, keys, i);
    if (i == 0 || now != last) {
      scale = static_cast<float>(factor(now, norms));
      last = std::move(now);
    }
    if (scale != 1)
      for (float& x : values.subspan(i * dim, dim)) x *= scale;
  }
}

}  // namespace embers::storage
