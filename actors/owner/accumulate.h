#pragma once

#include <span>
#include <vector>

#include "schema/messages/codec.h"
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

// Adds weight x gradient in the order of `parts`, so that the same parts give the same bits, no matter who
// sent them. For tables of Accumulation::kLast the values of the last part count, unweighted. Keys come in
// order of first appearance, tables in order of id. The sum of a single part is that part times its weight.
std::vector<AccumulatedTable> accumulate(std::span<const WeightedSlices> parts,
                                         std::span<const TableSpec> specs);

}  // namespace embers
