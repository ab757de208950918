#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/floats/numbers.h"
#include "schema/ids.h"

namespace embers {

// Number of a table within a job: its place in ModelSpec::tables.
using TableId = uint32_t;

// Names and parameters as the job file or the model gives them; storage/ knows what they mean and refuses
// unknown ones. Keras names.
struct InitializerSpec {
  std::string name = "uniform";
  std::map<std::string, double> params;
  friend bool operator==(const InitializerSpec&, const InitializerSpec&) = default;
};

// How the learning rate changes with the model's step; "" for a constant one.
struct ScheduleSpec {
  std::string name;
  std::map<std::string, double> params;
  std::vector<double> boundaries, values;  // of a piecewise constant schedule
  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

struct UpdateRuleSpec {
  std::string name = "sgd";
  std::map<std::string, double> params;
  ScheduleSpec schedule = {};
  friend bool operator==(const UpdateRuleSpec&, const UpdateRuleSpec&) = default;
};

// What rows must fulfil after each apply; "" for nothing.
struct ConstraintSpec {
  std::string name;
  std::map<std::string, double> params;
  friend bool operator==(const ConstraintSpec&, const ConstraintSpec&) = default;
};

// How a table is split over the owners of a job.
enum class Partition : uint8_t {
  kToken = 0,     // whole rows, each with one owner
  kEncoding = 1,  // columns of every row, see columns_of()
  kAuto = 2,      // the master chooses; nobody else sees it
};

std::string_view name(Partition partition);  // "token", "encoding", "auto"
// kInvalid saying what there is, for another text.
Partition partition_named(std::string_view text);

// How pushes of several minibatches to one key become one gradient.
enum class Accumulation : uint8_t {
  kSum = 0,   // added up (weighted by examples when the reduction is mean)
  kLast = 1,  // the version's last minibatch wins: buffers such as BatchNorm's running mean
};

// One embedding table, or one of the two reserved ones.
struct TableSpec {
  std::string name;
  uint32_t dim = 0;  // floats per row, slots not counted
  KeyKind key_kind = KeyKind::kInt64;
  int64_t input_dim = 0;  // number of rows when the model knows it (for fans), else 0
  InitializerSpec initializer;
  UpdateRuleSpec update_rule;
  ConstraintSpec constraint;
  Accumulation accumulation = Accumulation::kSum;
  NumberType number_type = NumberType::kFloat32;  // what rows are kept as; slots are always float32
  Rounding rounding = Rounding::kNearest;         // of changed rows that are halves
  Partition partition = Partition::kToken;
  // Of an owner's part of a table with the encoding partition (part_of()): `dim` is the number of its
  // columns, this the first of them. Row_dim 0: rows are whole.
  uint32_t first_column = 0, row_dim = 0;
  bool is_part() const { return row_dim != 0; }
  friend bool operator==(const TableSpec&, const TableSpec&) = default;
};

// Reserved tables: dense parameters and buffers travel as rows of kDenseChunk floats whose keys are
// "<parameter name>#<chunk>", the last chunk padded with zeros.
inline constexpr char kDenseTable[] = "_dense";
inline constexpr char kBufferTable[] = "_buffers";
inline constexpr uint32_t kDenseChunk = 1024;

inline bool is_reserved(const std::string& table) { return table == kDenseTable || table == kBufferTable; }

// What numbers of a table are sent as in a job that sends rows as `rows_as`: dense parameters always as
// float32.
inline NumberType sent_as(const TableSpec& table, NumberType rows_as) {
  return is_reserved(table.name) ? NumberType::kFloat32 : rows_as;
}

// The reserved tables of a model.
TableSpec dense_table(UpdateRuleSpec update_rule);
TableSpec buffer_table();

// One dense parameter or buffer of the model.
struct DenseParam {
  std::string name;  // as in libtorch's named_parameters()
  std::vector<int64_t> shape;
  bool buffer = false;
  int64_t numel() const;
  friend bool operator==(const DenseParam&, const DenseParam&) = default;
};

// Everything the parameter server knows of a model.
struct ModelSpec {
  std::vector<TableSpec> tables;  // embedding tables in discovery order, then the reserved ones if needed
  std::vector<DenseParam> dense;  // parameters, then buffers, each in the model's own order

  bool has_embeddings() const;
  // The id of the table of this name; kUnknownTable if there is none.
  TableId table_id(const std::string& name) const;
};

// One line per table and dense parameter, e.g. "table 'education': dim 8, keys bytes". Two processes whose
// lists are equal have the same model.
std::vector<std::string> signature(const ModelSpec& model);

// "" when equal, else the first difference as text: "table 'education': dim 8, keys bytes at the master,
// table 'education': dim 16, keys bytes at the worker".
std::string signature_difference(const std::vector<std::string>& mine,
                                 const std::vector<std::string>& theirs);

// One dense parameter's place in a reserved table.
struct DenseChunk {
  size_t param;     // index into ModelSpec::dense
  int64_t begin;    // first element of the flattened parameter
  int64_t size;     // elements that count; the row's other floats are padding
  std::string key;  // "<name>#<chunk>"
};

// The chunks of all parameters (buffer == false) or of all buffers (buffer == true), in order. Row r of a
// pull of that reserved table is chunk r.
std::vector<DenseChunk> dense_chunks(const ModelSpec& model, bool buffer);

}  // namespace embers
