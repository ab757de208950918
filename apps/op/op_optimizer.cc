// The optimizers of `embers op`; apps/command_line/op_help.h documents the case.
#include <map>

#include "apps/op/op.h"
#include "apps/op/op_specs.h"
#include "base/errors.h"
#include "base/floats/finite.h"
#include "storage/apply.h"
#include "storage/update_rules/clipping.h"

namespace embers::op {
namespace {

struct Rows {
  Keys keys{KeyKind::kBytes};
  std::vector<float> values;
  uint32_t dim = 0;
};

Rows rows_of(const Json& the_case) {
  const Json& object = at(the_case, "rows");
  if (!object.is_object() || object.empty())
    fail(ErrorCode::kInvalid, "rows must be an object with at least one row, like {{\"k\": [1, 2]}}");
  Rows rows;
  for (const auto& [key, list] : object.items()) {
    const std::string place = fmt::format("rows.{}", key);
    const Flat flat = flatten(list, place);
    if (flat.shape.size() != 1 || flat.values.empty())
      fail(ErrorCode::kInvalid, "{} must be a list of numbers", place);
    if (rows.dim != 0 && flat.values.size() != rows.dim)
      fail(ErrorCode::kInvalid, "{} has {} numbers, but the rows before it have {}", place,
           flat.values.size(), rows.dim);
    rows.dim = static_cast<uint32_t>(flat.values.size());
    rows.keys.push_back(key);
    for (const float x : numbers(flat, place)) rows.values.push_back(x);
  }
  return rows;
}

std::string key_of(const Json& value, const std::string& place) {
  return value.is_number_integer() ? value.dump() : text(value, place);
}

// One step's gradients, with those of the same key added up.
struct Gradients {
  Keys keys{KeyKind::kBytes};
  std::vector<float> values;
};

Gradients gradients_of(const Json& step, const std::string& place, const Json& rows, uint32_t dim) {
  const Json& keys = at(step, "keys");
  const Flat flat = flatten(at(step, "grads"), place + ".grads");
  if (!keys.is_array()) fail(ErrorCode::kInvalid, "{}.keys must be a list of keys", place);
  const std::vector<int64_t> expected{static_cast<int64_t>(keys.size()), dim};
  if (flat.shape != expected && !(keys.empty() && flat.values.empty()))
    fail(ErrorCode::kInvalid, "{}.grads has shape {}, but {} keys with rows of {} need {}", place,
         show(flat.shape), keys.size(), dim, show(expected));
  const std::vector<float> values = numbers(flat, place + ".grads");
  Gradients sum;
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string key = key_of(keys[i], place + ".keys");
    if (!rows.contains(key)) fail(ErrorCode::kInvalid, "{}.keys: rows has no key '{}'", place, key);
    const auto grad = std::span(values).subspan(i * dim, dim);
    if (!all_below(kInfiniteGradient, grad))
      fail(ErrorCode::kInvalid, "{}.grads: the gradient of key '{}' is infinite or NaN", place, key);
    const auto [known, fresh] = places.emplace(key, sum.keys.size());
    if (fresh) {
      sum.keys.push_back(key);
      sum.values.resize(sum.values.size() + dim);
    }
    for (uint32_t c = 0; c < dim; ++c) sum.values[known->second * dim + c] += grad[c];
  }
  return sum;
}

double rate_of(const Json& step, const std::string& place, double otherwise) {
  if (!given(step, "lr")) return otherwise;
  const double rate = exact_number(at(step, "lr"), place + ".lr");
  if (rate < 0) fail(ErrorCode::kInvalid, "{}.lr is {} but must be at least 0", place, rate);
  return rate;
}

// Rows and slots as they stand.
Json state_of(storage::Store& store, const storage::UpdateRule& optimizer, uint32_t dim) {
  const size_t stride = dim + slot_floats(optimizer, dim);
  Json rows = Json::object(), slots = Json::object();
  for (const auto& slot : optimizer.slots()) slots[slot.name] = Json::object();
  const auto list = [](std::span<const float> values) {
    return nested(values, {{static_cast<int64_t>(values.size())}});
  };
  const auto add = [&](KeysView keys, std::span<const float> values) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string key = row_name(keys, i);
      size_t begin = i * stride;
      rows[key] = list(values.subspan(begin, dim));
      begin += dim;
      for (const auto& slot : optimizer.slots()) {
        slots[slot.name][key] = list(values.subspan(begin, slot.width(dim)));
        begin += slot.width(dim);
      }
    }
  };
  for (uint64_t cursor = 0; cursor != storage::Store::kScanEnd;) cursor = store.scan(0, cursor, 4096, add);
  return {{"rows", rows}, {"slots", slots}};
}

}  // namespace

Json optimizer(const Json& the_case) {
  const Rows rows = rows_of(the_case);
  TableSpec table;
  table.name = "rows";
  table.dim = rows.dim;
  table.key_kind = KeyKind::kBytes;
  table.update_rule = optimizer_spec(the_case);
  const auto optimizer = storage::UpdateRule::make(table.update_rule);
  const storage::Clipper clipper({&table, 1});
  const auto store = storage::make_memory_store();
  store->add_table(table, slot_init(*optimizer, rows.dim));
  store->add_if_absent(0, rows.keys, rows.values);

  const Json& steps = at(the_case, "steps");
  if (!steps.is_array()) fail(ErrorCode::kInvalid, "steps must be a list of steps");
  const double numbers = static_cast<double>(rows.dim + slot_floats(*optimizer, rows.dim)) *
                         static_cast<double>(rows.keys.size()) * static_cast<double>(steps.size());
  if (numbers > kMostNumbers)
    fail(ErrorCode::kInvalid, "the trace would have {} numbers: give fewer steps", numbers);
  Json trace = Json::array();
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string place = fmt::format("steps[{}]", i);
    Gradients grads = gradients_of(steps[i], place, at(the_case, "rows"), rows.dim);
    storage::SquareSums sums;
    clipper.add_squares(0, grads.keys, grads.values, sums);
    clipper.clip(0, grads.keys, grads.values, values(sums));
    const storage::LeftOut left_out =
        apply(*store, 0, *optimizer, {i + 1, rate_of(steps[i], place, optimizer->learning_rate(i + 1))},
              grads.keys, grads.values);
    if (left_out.rows > 0)
      fail(ErrorCode::kInvalid, "{} would make the row of key '{}' infinite or NaN", place,
           row_name(grads.keys, left_out.first));
    trace.push_back(state_of(*store, *optimizer, rows.dim));
  }
  return {{"trace", trace}};
}

}  // namespace embers::op
