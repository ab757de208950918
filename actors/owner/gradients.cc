#include "actors/owner/gradients.h"

#include "base/floats/finite.h"

namespace embers {
namespace {

[[noreturn]] void fail_bad(const TableSpec& spec, KeysView keys, size_t i, const Origin& origin) {
  fail(ErrorCode::kInvalid,
       "minibatch {} of epoch {} gives key '{}' of table '{}' a gradient that is infinite or NaN: look for "
       "such "
       "values in the data, lower the learning rate, clip gradients, or set training.on_bad_gradient = "
       "\"skip\"",
       origin.minibatch, origin.epoch, to_string(keys, i), spec.name);
}

std::span<const float> row_of(const TableSlices& t, size_t i) {
  return t.values.subspan(i * t.width, t.width);
}

bool is_finite(std::span<const float> gradient) { return all_below(kInfiniteGradient, gradient); }

// The rows of `t` that are finite.
std::unique_ptr<AccumulatedTable> finite_rows(const TableSlices& t) {
  auto kept = std::make_unique<AccumulatedTable>(AccumulatedTable{t.table, Keys(t.keys.kind), {}});
  for (size_t i = 0; i < t.keys.size(); ++i) {
    const auto row = row_of(t, i);
    if (!is_finite(row)) continue;
    kept->keys.push_back_from(t.keys, i);
    kept->values.insert(kept->values.end(), row.begin(), row.end());
  }
  return kept;
}

}  // namespace

FiniteGradients finite_gradients(std::vector<TableSlices> tables, std::span<const TableSpec> specs,
                                 const Origin& origin, bool skip) {
  FiniteGradients finite;
  for (TableSlices& t : tables) {
    const TableSpec& spec = specs[t.table];
    if (!t.halves.empty()) t = in_floats(t, finite.from_halves.emplace_back());
    if (spec.accumulation == Accumulation::kLast || is_finite(t.values)) {
      finite.tables.push_back(t);
      continue;
    }
    if (!skip)
      for (size_t i = 0; i < t.keys.size(); ++i)
        if (!is_finite(row_of(t, i))) fail_bad(spec, t.keys, i, origin);
    const AccumulatedTable& kept = *finite.kept.emplace_back(finite_rows(t));
    if (spec.first_column == 0) finite.left_out += t.keys.size() - kept.keys.size();
    if (!kept.keys.empty()) finite.tables.push_back({t.table, kept.keys, t.width, kept.values});
  }
  return finite;
}

std::vector<AccumulatedTable> copy_of(std::span<const TableSlices> tables) {
  std::vector<AccumulatedTable> copies;
  for (const TableSlices& t : tables)
    copies.push_back({t.table, Keys(t.keys), {t.values.begin(), t.values.end()}});
  return copies;
}

std::vector<TableSlices> views_of(std::span<const AccumulatedTable> tables,
                                  std::span<const TableSpec> specs) {
  std::vector<TableSlices> views;
  for (const AccumulatedTable& t : tables) views.push_back({t.table, t.keys, specs[t.table].dim, t.values});
  return views;
}

storage::SquareSums square_sums(std::span<const AccumulatedTable> tables, const storage::Clipper& clipper) {
  storage::SquareSums sums;
  for (const AccumulatedTable& t : tables) clipper.add_squares(t.table, t.keys, t.values, sums);
  return sums;
}

void clip(std::span<AccumulatedTable> tables, const storage::Clipper& clipper,
          const storage::SquaredNorms& norms) {
  for (AccumulatedTable& t : tables) clipper.clip(t.table, t.keys, t.values, norms);
}

}  // namespace embers
