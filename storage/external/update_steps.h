#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/external/external_tables.h"
#include "storage/external/loss_watch.h"
#include "storage/external/server_reads.h"
#include "storage/rows/batch_index.h"
#include "storage/rows/store.h"

namespace embers::storage {

// The five steps of ElasticDL's OptimizerWrapper.apply_gradients on key-value servers, one function each:
//
//   1 look_up_rows_and_slots     a key without a row is an error
//   2 initialize_unknown_slots   of rows that were never updated
//   3 apply_update_rule          to rows and slots in memory
//   4 write_rows_back            5 write_slots_back
//
// Row and slots carry the version of the update that wrote them: where they differ, a write was lost.
// *Thread safety*: none.
class UpdateSteps {
 public:
  // All must outlive it.
  UpdateSteps(ServerReads& reads, ExternalTables& tables, LossWatch& loss, const ExternalOptions& options)
      : reads_(reads), tables_(tables), loss_(loss), options_(options) {}

  // From here to step 3 rows with their slots are in values(). Keys may repeat.
  void look_up_rows_and_slots(TableId id, KeysView keys);
  void initialize_unknown_slots(TableId id, KeysView keys);
  void apply_update_rule(TableId id, KeysView keys, std::span<const float> grads, const RowsKernel& kernel);
  std::vector<float>& values() { return values_; }  // [keys x stride]

  // The servers collect these until the next barrier. The table's names must be those of `keys`; values are
  // written with the table's version.
  void write_rows_back(const ExternalTable& table, KeysView keys, std::span<const float> values);
  void write_slots_back(const ExternalTable& table, KeysView keys, std::span<const float> values);

  // The bytes to be stored under the name of the i-th key; valid until the next call.
  std::string_view encode(const ExternalTable& table, KeysView keys, size_t i, std::string_view name,
                          uint64_t version, std::span<const float> floats);

 private:
  void set(const ExternalTable& table, KeysView keys, size_t i, std::string_view name,
           std::span<const float> floats);

  ServerReads& reads_;
  ExternalTables& tables_;
  LossWatch& loss_;
  const ExternalOptions& options_;

  // What was looked up: the i-th entry of each is the i-th key's.
  std::vector<float> values_;
  std::vector<uint8_t> has_row_, has_slots_;
  std::vector<uint64_t> row_version_, slots_version_;

  // Scratch of one call.
  BatchIndex batch_;
  std::vector<float*> rows_;
  std::string value_;
};

}  // namespace embers::storage
