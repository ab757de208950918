#pragma once

#include <span>
#include <vector>

#include "schema/codec.h"
#include "schema/table_spec.h"

namespace embers {

// Stage "accumulate" (the seed's G_EM): gradients of several minibatches become one per key. Plain
// arithmetic.

// The indexed slices of one minibatch and its weight in the version.
struct WeightedSlices {
  float weight;
  std::vector<TableSlices> tables;  // keys unique within a table
};

// Gradients of one table, owned.
struct AccumulatedTable {
  TableId table;
  Keys keys;
  std::vector<float> values;
};

// Adds weight x gradient in the order of `parts`, so that the same parts give the same bits whoever sent
// them; for tables of Accumulation::kLast the last part's values stand, unweighted. Keys come in order of
// first appearance, tables in order of id. A sum that starts from one part only is that part times its
// weight.
std::vector<AccumulatedTable> accumulate(std::span<const WeightedSlices> parts,
                                         std::span<const TableSpec> specs);

}  // namespace embers
