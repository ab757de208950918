#pragma once

#include <memory>
#include <span>
#include <vector>

#include "actors/owner/accumulate.h"
#include "schema/messages/codec.h"
#include "schema/table_spec.h"
#include "storage/update_rules/clipping.h"

namespace embers {

// What is done to gradients on their way to the shard, before and after they are added up. Plain arithmetic.

// Gradients of one minibatch without the rows that hold NaN, an infinity, or what counts as one
// (base/floats/finite.h).
struct FiniteGradients {
  std::vector<TableSlices> tables;  // views of what came in, or of `kept`
  uint64_t left_out = 0;            // rows; each counts at one owner
  std::vector<std::unique_ptr<AccumulatedTable>> kept;
  std::vector<FloatBuffer> from_halves;
};

// With `skip`, bad rows are left out; otherwise the first one is kInvalid, naming `origin`'s minibatch, the
// table and the key. Tables of Accumulation::kLast hold values, not gradients, and pass as they are.
// Gradients that came as halves become float32.
FiniteGradients finite_gradients(std::vector<TableSlices> tables, std::span<const TableSpec> specs,
                                 const Origin& origin, bool skip);

// Copies that may be changed, and views of such copies.
std::vector<AccumulatedTable> copy_of(std::span<const TableSlices> tables);
std::vector<TableSlices> views_of(std::span<const AccumulatedTable> tables, std::span<const TableSpec> specs);

storage::SquareSums square_sums(std::span<const AccumulatedTable> tables, const storage::Clipper& clipper);
void clip(std::span<AccumulatedTable> tables, const storage::Clipper& clipper,
          const storage::SquaredNorms& norms);

}  // namespace embers
