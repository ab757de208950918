// The lookup operators of `embers op`; apps/command_line/op_help.h documents the case.
#include <optional>

#include "apps/op/op.h"
#include "apps/op/op_specs.h"
#include "base/errors.h"
#include "base/suggest.h"
#include "model/lookup/coordinates.h"
#include "model/lookup/operators/lookup_operators.h"
#include "model/lookup/operators/table_keys.h"

namespace embers::op {
namespace {

struct Params {
  std::vector<std::vector<float>> partitions;
  int64_t dim = 0;

  LocalTable table(PartitionStrategy strategy, const std::vector<int64_t>& blocknums) const {
    return LocalTable({partitions.begin(), partitions.end()}, dim, strategy, blocknums);
  }
  std::vector<int64_t> rows() const {
    std::vector<int64_t> rows;
    for (const auto& values : partitions) rows.push_back(static_cast<int64_t>(values.size()) / dim);
    return rows;
  }
};

Params params_of(const Json& the_case) {
  const Json& list = at(the_case, "params");
  if (!list.is_array()) fail(ErrorCode::kInvalid, "params must be a list of partitions");
  if (list.empty()) fail(ErrorCode::kInvalid, "params has no partitions: give at least one");
  Params params;
  for (size_t p = 0; p < list.size(); ++p) {
    const std::string place = fmt::format("params[{}]", p);
    const Flat flat = flatten(list[p], place);
    const bool no_rows = flat.shape == std::vector<int64_t>{0};
    if (!no_rows && flat.shape.size() != 2)
      fail(ErrorCode::kInvalid, "{} has shape {}: a partition is a list of rows", place, show(flat.shape));
    if (!no_rows && params.dim != 0 && flat.shape[1] != params.dim)
      fail(ErrorCode::kInvalid, "{} has rows of {} numbers, but the partitions before it have rows of {}",
           place, flat.shape[1], params.dim);
    if (!no_rows) params.dim = flat.shape[1];
    params.partitions.push_back(numbers(flat, place));
  }
  if (params.dim == 0) fail(ErrorCode::kInvalid, "params has no rows, or rows without numbers");
  return params;
}

PartitionStrategy strategy_of(const Json& the_case) {
  if (!given(the_case, "partition_strategy")) return PartitionStrategy::kDiv;
  const std::string& name = text(at(the_case, "partition_strategy"), "partition_strategy");
  if (name != "div" && name != "mod")
    fail(ErrorCode::kInvalid, "partition_strategy must be div or mod, not '{}'", name);
  return name == "div" ? PartitionStrategy::kDiv : PartitionStrategy::kMod;
}

Combiner combiner_of(const Json& the_case) {
  if (!given(the_case, "combiner")) return Combiner::kNone;
  const std::string& name = text(at(the_case, "combiner"), "combiner");
  if (name == "sum") return Combiner::kSum;
  if (name == "mean") return Combiner::kMean;
  if (name == "sqrtn") return Combiner::kSqrtN;
  fail(ErrorCode::kInvalid, "there is no combiner '{}'{}", name,
       suggestion(name, std::vector<std::string>{"sum", "mean", "sqrtn"}));
}

// Raw keys of the rows, if there are any.
std::optional<TableKeys> table_keys(const Json& the_case, const Params& params) {
  const Json& list = at(the_case, "keys");
  if (list.is_null()) return {};
  const std::vector<int64_t> rows = params.rows();
  if (!list.is_array() || list.size() != rows.size())
    fail(ErrorCode::kInvalid, "keys must have one list for each of the {} partitions", rows.size());
  Flat all;
  for (size_t p = 0; p < rows.size(); ++p) {
    const Flat flat = flatten(list[p], fmt::format("keys[{}]", p));
    if (flat.shape != std::vector<int64_t>{rows[p]})
      fail(ErrorCode::kInvalid, "keys[{}] has shape {}: partition {} has {} rows", p, show(flat.shape), p,
           rows[p]);
    all.values.insert(all.values.end(), flat.values.begin(), flat.values.end());
  }
  return TableKeys(keys_from(all.values, "keys"));
}

std::vector<int64_t> row_ids(const Flat& flat, const std::optional<TableKeys>& keys, const char* place) {
  if (!keys) return integers(flat, place);
  if (flat.values.empty()) return {};
  return keys->rows(keys_from(flat.values, place));
}

// Ids and the shape of what they are combined into.
struct Input {
  std::vector<int64_t> ids, offsets, shape;
};

Input dense_input(const Json& the_case, const std::optional<TableKeys>& keys, bool combined) {
  const Flat flat = flatten(at(the_case, "ids"), "ids");
  Input input{row_ids(flat, keys, "ids"), {0}, flat.shape};
  if (!combined) return input;
  if (flat.shape.empty())
    fail(ErrorCode::kInvalid, "ids is one number: ids are combined along the last axis");
  const int64_t width = input.shape.back();
  input.shape.pop_back();
  int64_t bags = 1;
  for (const int64_t d : input.shape) bags *= d;
  for (int64_t b = 1; b <= bags; ++b) input.offsets.push_back(b * width);
  return input;
}

Input sparse_input(const Json& the_case, const std::optional<TableKeys>& keys) {
  for (const char* key : {"indices", "values", "dense_shape"})
    if (!at(the_case, key).is_array())
      fail(ErrorCode::kInvalid, "{} must be a list: sparse ids need indices, values and dense_shape", key);
  const Flat indices = flatten(at(the_case, "indices"), "indices");
  const Flat values = flatten(at(the_case, "values"), "values");
  const Flat shape = flatten(at(the_case, "dense_shape"), "dense_shape");
  const std::vector<int64_t> dense_shape = integers(shape, "dense_shape");
  const auto rank = static_cast<int64_t>(dense_shape.size());
  if (shape.shape.size() != 1)
    fail(ErrorCode::kInvalid, "dense_shape has shape {}: it must be a plain list", show(shape.shape));
  if (values.shape.size() != 1)
    fail(ErrorCode::kInvalid, "values has shape {}: it must be a plain list", show(values.shape));
  if (!indices.values.empty() && (indices.shape.size() != 2 || indices.shape[1] != rank))
    fail(ErrorCode::kInvalid, "indices has shape {}: each needs {} coordinates, as many as dense_shape has",
         show(indices.shape), rank);
  if (indices.shape[0] != values.shape[0])
    fail(ErrorCode::kInvalid, "there are {} indices for {} values: each id needs one", indices.shape[0],
         values.shape[0]);
  Input input{row_ids(values, keys, "values"), bag_offsets(integers(indices, "indices"), dense_shape),
              dense_shape};
  input.shape.pop_back();
  return input;
}

LookupOptions options_of(const Json& the_case, const std::optional<TableKeys>& keys) {
  LookupOptions options;
  options.combiner = combiner_of(the_case);
  if (given(the_case, "max_norm")) options.max_norm = number(at(the_case, "max_norm"), "max_norm");
  if (given(the_case, "default_id"))
    options.default_id = row_ids({{1}, {&at(the_case, "default_id")}}, keys, "default_id").front();
  if (given(the_case, "prune_invalid_ids")) options.prune_invalid_ids = flag(the_case, "prune_invalid_ids");
  return options;
}

void check_size(const Json& the_case, int64_t dim) {
  double numbers = static_cast<double>(dim);
  const Json& shape = at(the_case, "dense_shape");
  // A dimension of 0 holds no numbers but still makes lists.
  for (size_t d = 0; shape.is_array() && d + 1 < shape.size(); ++d)
    numbers *= std::max(1.0, static_cast<double>(integer(shape[d], "dense_shape")));
  if (numbers > kMostNumbers)
    fail(ErrorCode::kInvalid, "dense_shape {} makes a result of {:.3g} numbers, more than {:.3g}",
         shape.dump(), numbers, kMostNumbers);
}

void refuse(const Json& the_case, const std::string& op, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (given(the_case, key) && at(the_case, key) != Json(false))
      fail(ErrorCode::kInvalid, "{} takes no {}: leave it out or use another operator", op, key);
}

bool is_sparse(const Json& the_case, const std::string& op) {
  const bool sparse =
      given(the_case, "indices") || given(the_case, "values") || given(the_case, "dense_shape");
  if (sparse && given(the_case, "ids"))
    fail(ErrorCode::kInvalid, "the case has both dense ids and sparse ids (indices, values, dense_shape)");
  if (!sparse && !given(the_case, "ids"))
    fail(ErrorCode::kInvalid, "the case has no ids: give ids, or indices, values and dense_shape");
  if (sparse && op == "embedding_lookup")
    fail(ErrorCode::kInvalid,
         "embedding_lookup has no combiner for sparse ids: give dense ids or use embedding_lookup_sparse");
  return sparse;
}

void run(const std::string& op, const LocalTable& table, const SparseIds& ids, const LookupOptions& options,
         LookupPass& pass, LookupWorkspace& workspace, std::span<float> out) {
  if (op == "embedding_lookup")
    return embedding_lookup(table, ids.ids, options.max_norm, pass, workspace, out);
  if (op == "embedding_lookup_sparse")
    return embedding_lookup_sparse(table, ids, options.combiner, options.max_norm, pass, workspace, out);
  if (op == "safe_embedding_lookup_sparse")
    return safe_embedding_lookup_sparse(table, ids, options, pass, workspace, out);
  if (op == "fused_embedding_lookup_sparse")
    return fused_embedding_lookup_sparse(table, ids, options, pass, workspace, out);
  fused_safe_embedding_lookup_sparse(table, ids, options, pass, workspace, out);
}

std::vector<float> gradient_of(const Json& the_case, const std::vector<int64_t>& shape) {
  const Flat flat = flatten(at(the_case, "grad"), "grad");
  int64_t size = 1, given_size = 1;
  for (const int64_t d : shape) size *= d;
  for (const int64_t d : flat.shape) given_size *= d;
  if (flat.shape != shape && !(size == 0 && given_size == 0))
    fail(ErrorCode::kInvalid, "grad has shape {}, but the output has {}", show(flat.shape), show(shape));
  return numbers(flat, "grad");
}

Json to_json(const RowGradients& gradients) {
  Json list = Json::array();
  const auto dim = static_cast<size_t>(gradients.dim);
  for (size_t p = 0; p + 1 < gradients.part_begin.size(); ++p) {
    const size_t begin = gradients.part_begin[p], rows = gradients.part_begin[p + 1] - begin;
    if (rows == 0) continue;
    const auto ids = gradients.rows.subspan(begin, rows);
    const std::array<int64_t, 2> shape{static_cast<int64_t>(rows), gradients.dim};
    list.push_back({{"partition", p},
                    {"ids", std::vector<int64_t>(ids.begin(), ids.end())},
                    {"values", nested(gradients.values.subspan(begin * dim, rows * dim), shape)}});
  }
  return list;
}

}  // namespace

Json lookup(const Json& the_case) {
  const std::string& op = text(at(the_case, "op"), "op");
  const bool dense_op = op == "embedding_lookup";
  if (dense_op) refuse(the_case, op, {"combiner", "weights"});
  if (dense_op || op == "embedding_lookup_sparse") refuse(the_case, op, {"default_id", "prune_invalid_ids"});
  const Params params = params_of(the_case);
  const std::optional<TableKeys> keys = table_keys(the_case, params);
  std::vector<int64_t> blocknums = keys ? params.rows() : std::vector<int64_t>{};
  if (given(the_case, "blocknums")) {
    const Flat flat = flatten(at(the_case, "blocknums"), "blocknums");
    if (flat.shape.size() != 1)
      fail(ErrorCode::kInvalid, "blocknums has shape {}: it must be a plain list", show(flat.shape));
    blocknums = integers(flat, "blocknums");
  }
  const LocalTable table = params.table(keys ? PartitionStrategy::kDiv : strategy_of(the_case), blocknums);

  check_size(the_case, params.dim);
  const Input input =
      is_sparse(the_case, op) ? sparse_input(the_case, keys) : dense_input(the_case, keys, !dense_op);
  std::vector<float> weights;
  SparseIds ids{input.ids, input.offsets, {}};
  if (given(the_case, "weights")) {
    const Flat flat = flatten(at(the_case, "weights"), "weights");
    if (flat.shape.size() != 1 &&
        (!given(the_case, "ids") || flat.shape != flatten(at(the_case, "ids"), "ids").shape))
      fail(ErrorCode::kInvalid, "weights has shape {}: give a plain list, or the shape of the ids",
           show(flat.shape));
    weights = numbers(flat, "weights");
    ids.weights = weights;
  }
  std::vector<int64_t> shape = input.shape;
  int64_t size = params.dim;
  for (const int64_t d : shape) size *= d;
  shape.push_back(params.dim);
  std::vector<float> out(static_cast<size_t>(size));
  LookupPass pass;
  LookupWorkspace workspace;
  run(op, table, ids, options_of(the_case, keys), pass, workspace, out);
  Json result{{"output", nested(out, shape)}, {"grads", Json::array()}};
  if (given(the_case, "grad"))
    result["grads"] = to_json(lookup_gradient(pass, gradient_of(the_case, shape), workspace));
  return result;
}

}  // namespace embers::op
