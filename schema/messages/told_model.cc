#include "schema/messages/told_model.h"

#include <fmt/ranges.h>

#include <set>
#include <utility>

namespace embers {
namespace {

constexpr uint32_t kMostDim = 65536;
constexpr int64_t kMostElements = int64_t{1} << 27;  // of all parameters: first values travel in one message

void check_model(const ModelSpec& model) {
  if (model.tables.empty())
    fail(ErrorCode::kInvalid, "this worker's model has neither embedding tables nor parameters");
  std::set<std::string> names;
  bool reserved = false;
  for (const TableSpec& table : model.tables) {
    if (table.name.empty()) fail(ErrorCode::kInvalid, "a table of this worker's model has no name");
    if (!names.insert(table.name).second)
      fail(ErrorCode::kInvalid, "this worker's model has two tables '{}': give them two names", table.name);
    if (table.dim == 0 || table.dim > kMostDim)
      fail(ErrorCode::kInvalid, "table '{}' has dim {}: it must be from 1 to {}", table.name, table.dim,
           kMostDim);
    if (is_reserved(table.name) && table.dim != kDenseChunk)
      fail(ErrorCode::kInvalid, "the name '{}' is reserved: call the table something else", table.name);
    if (reserved && !is_reserved(table.name))
      fail(ErrorCode::kBadFrame, "table '{}' comes after the reserved ones", table.name);
    reserved |= is_reserved(table.name);
  }
  const auto has = [tables = std::exchange(names, {})](const char* table) { return tables.contains(table); };
  int64_t all = 0;
  for (const DenseParam& p : model.dense) {
    if (!names.insert(p.name).second)
      fail(ErrorCode::kInvalid, "this worker's model has two parameters '{}'", p.name);
    int64_t elements = 1;
    for (const int64_t size : p.shape) {
      if (size < 0) fail(ErrorCode::kInvalid, "parameter '{}' has a negative size in its shape", p.name);
      elements = size > 0 && elements > kMostElements / size ? kMostElements + 1 : elements * size;
    }
    if ((all += elements) > kMostElements)
      fail(ErrorCode::kInvalid, "with parameter '{}' [{}] the model has more than {} elements", p.name,
           fmt::join(p.shape, ", "), kMostElements);
    if (!has(p.buffer ? kBufferTable : kDenseTable))
      fail(ErrorCode::kBadFrame, "{} '{}' has no table", p.buffer ? "buffer" : "parameter", p.name);
  }
}

// "adam { learning_rate = 0.001 }"; "none" for the name "".
template <class Spec>
std::string text(const Spec& spec) {
  if (spec.name.empty()) return "none";
  std::vector<std::string> params;
  for (const auto& [name, value] : spec.params) params.push_back(fmt::format("{} = {}", name, value));
  if constexpr (requires { spec.schedule; })
    if (!spec.schedule.name.empty()) {
      std::string schedule = text(spec.schedule);
      if (!spec.schedule.boundaries.empty())
        schedule += fmt::format(" [{}; {}]", fmt::join(spec.schedule.boundaries, ", "),
                                fmt::join(spec.schedule.values, ", "));
      params.push_back("schedule = " + schedule);
    }
  return params.empty() ? spec.name : fmt::format("{} {{ {} }}", spec.name, fmt::join(params, ", "));
}

template <class T>
std::string differs(const std::string& what, const T& mine, const T& theirs) {
  return fmt::format("{} {} at the master, {} at the worker", what, mine, theirs);
}

}  // namespace

void check(const ToldModel& told) {
  check_model(told.model);
  if (told.batch_size == 0 || told.epochs == 0 || told.minibatches() == 0)
    fail(ErrorCode::kInvalid,
         "there is no work: {} records in minibatches of {}{}, {} epochs; each must be at least one",
         told.records, told.batch_size, told.drop_last ? " (a short last one is left out)" : "", told.epochs);
}

uint64_t ToldModel::minibatches() const {
  if (batch_size == 0) return 0;
  return records / batch_size + (!drop_last && records % batch_size > 0);
}

std::vector<std::string> ToldModel::amount() const {
  return {fmt::format("records = {}", records), fmt::format("batch_size = {}", batch_size),
          fmt::format("drop_last = {}", drop_last)};
}

void write(wire::ToldModel::Builder out, const ToldModel& told, const FirstValues& values) {
  auto tables = out.initTables(static_cast<unsigned>(told.model.tables.size()));
  for (unsigned i = 0; i < tables.size(); ++i) write(tables[i], told.model.tables[i]);
  auto parameters = out.initParameters(static_cast<unsigned>(told.model.dense.size()));
  for (unsigned i = 0; i < parameters.size(); ++i) {
    const DenseParam& p = told.model.dense[i];
    parameters[i].setName(p.name);
    parameters[i].setBuffer(p.buffer);
    auto shape = parameters[i].initShape(static_cast<unsigned>(p.shape.size()));
    for (unsigned d = 0; d < shape.size(); ++d) shape.set(d, p.shape[d]);
  }
  if (!values.dense.empty()) out.setDense(as_data(values.dense));
  if (!values.buffers.empty()) out.setBuffers(as_data(values.buffers));
  out.setRecords(told.records);
  out.setBatchSize(told.batch_size);
  out.setEpochs(told.epochs);
  out.setDropLast(told.drop_last);
}

ToldModel read(wire::ToldModel::Reader in) {
  ToldModel told;
  for (const auto table : in.getTables()) told.model.tables.push_back(read(table));
  for (const auto p : in.getParameters()) {
    DenseParam& param = told.model.dense.emplace_back();
    param.name = p.getName();
    param.buffer = p.getBuffer();
    for (const int64_t size : p.getShape()) param.shape.push_back(size);
  }
  told.records = in.getRecords();
  told.batch_size = in.getBatchSize();
  told.epochs = in.getEpochs();
  told.drop_last = in.getDropLast();
  check(told);
  return told;
}

FirstValues read_values(wire::ToldModel::Reader in) {
  const FirstValues values{read_floats(in.getDense()), read_floats(in.getBuffers())};
  const ModelSpec model = read(in).model;
  for (const bool buffer : {false, true}) {
    const size_t given = (buffer ? values.buffers : values.dense).size();
    const size_t wanted = dense_chunks(model, buffer).size() * kDenseChunk;
    if (given != 0 && given != wanted)
      fail(ErrorCode::kBadFrame, "{} floats of first values for {} of {}", given,
           buffer ? "buffers" : "parameters", wanted);
  }
  return values;
}

std::string difference(const ToldModel& mine, const ToldModel& theirs) {
  if (const std::string d = signature_difference(signature(mine.model), signature(theirs.model)); !d.empty())
    return d;
  for (size_t t = 0; t < mine.model.tables.size(); ++t) {
    const TableSpec &a = mine.model.tables[t], &b = theirs.model.tables[t];
    const auto of = [&](const char* what) { return fmt::format("table '{}': {}", a.name, what); };
    if (a.initializer != b.initializer)
      return differs(of("initializer"), text(a.initializer), text(b.initializer));
    if (a.update_rule != b.update_rule)
      return differs(of("optimizer"), text(a.update_rule), text(b.update_rule));
    if (a.constraint != b.constraint)
      return differs(of("constraint"), text(a.constraint), text(b.constraint));
    if (a.input_dim != b.input_dim) return differs(of("rows"), a.input_dim, b.input_dim);
    if (a.number_type != b.number_type) return differs(of("dtype"), name(a.number_type), name(b.number_type));
    if (a.partition != b.partition) return differs(of("partition"), name(a.partition), name(b.partition));
    if (a != b) return fmt::format("table '{}' has other settings at the worker", a.name);
  }
  if (mine.records != theirs.records) return differs("records", mine.records, theirs.records);
  if (mine.batch_size != theirs.batch_size) return differs("batch_size", mine.batch_size, theirs.batch_size);
  if (mine.drop_last != theirs.drop_last) return differs("drop_last", mine.drop_last, theirs.drop_last);
  if (mine.epochs != theirs.epochs) return differs("epochs", mine.epochs, theirs.epochs);
  return "";
}

std::string describe(const UpdateRuleSpec& rule) { return text(rule); }

}  // namespace embers
