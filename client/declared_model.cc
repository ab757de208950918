#include "client/declared_model.h"

#include <algorithm>

#include "client/arguments.h"
#include "job/sections/said.h"

namespace embers::client::detail {
namespace {

// What the program gives of the model's first values, as chunks of a reserved table.
std::shared_ptr<const FloatBuffer> first_values(const Core& core, const WorkerOptions& options, bool buffer) {
  auto values = std::make_shared<FloatBuffer>(dense_chunks(core.model, buffer).size() * kDenseChunk);
  std::fill(values->span().begin(), values->span().end(), 0.0f);
  for (size_t i = 0; i < options.parameters.size(); ++i) {
    const Parameter& p = options.parameters[i];
    const ParameterPlace& place = core.places[i];
    if (p.buffer != buffer || p.initial.empty()) continue;
    check_size(fmt::format("the first value of parameter '{}'", p.name), p.initial.size(), place.size);
    std::copy(p.initial.begin(), p.initial.end(), values->data() + place.begin);
  }
  return values;
}

// What the job gives of its [optimizer] stands; the program may say the rest.
void check_optimizer(const job::Job& job, const std::string& given) {
  if (given.empty() || !job.gives("optimizer")) return;
  embers::TableSpec table;
  job::read_said("its optimizer", {"", given, ""}, table);
  const UpdateRuleSpec &own = job.optimizer, &rule = table.update_rule;
  const bool agrees = own.name == rule.name && (own.schedule.name.empty() || own.schedule == rule.schedule) &&
                      std::all_of(own.params.begin(), own.params.end(), [&](const auto& param) {
                        const auto found = rule.params.find(param.first);
                        return found != rule.params.end() && found->second == param.second;
                      });
  if (!agrees)
    fail(ErrorCode::kMismatch,
         "{}: [optimizer] of job '{}' is {}, but this program's optimizer is {}: leave out one of them",
         job.place({"optimizer"}), job.job.name, describe(own), describe(rule));
}

}  // namespace

ModelSpec model_of(const WorkerOptions& options) {
  ModelSpec model;
  const auto add = [&](const std::string& name, uint32_t dim, KeyKind kind, const job::SaidOfTable& said) {
    embers::TableSpec& table = model.tables.emplace_back();
    table.name = name;
    table.dim = dim;
    table.key_kind = kind;
    table.initializer.name = table.update_rule.name = "";
    job::read_said(fmt::format("table '{}'", name), said, table);
  };
  for (const TableSpec& t : options.tables) {
    if (is_reserved(t.name))
      fail(ErrorCode::kInvalid, "the name '{}' is reserved: call the table something else", t.name);
    add(t.name, t.dim, kind_of(t.keys),
        {t.initializer, t.optimizer.empty() ? options.optimizer : t.optimizer, t.constraint, t.partition,
         t.dtype});
    model.tables.back().input_dim = t.rows;
  }
  bool parameters = false, buffers = false;
  for (const Parameter& p : options.parameters) {
    (p.buffer ? buffers : parameters) = true;
    if (std::any_of(p.shape.begin(), p.shape.end(), [](int64_t size) { return size < 0; }))
      fail(ErrorCode::kInvalid, "parameter '{}' has a negative size in its shape", p.name);
    model.dense.push_back({p.name, p.shape, p.buffer});
  }
  if (parameters) add(kDenseTable, kDenseChunk, KeyKind::kBytes, {"", options.optimizer, ""});
  if (buffers) add(kBufferTable, kDenseChunk, KeyKind::kBytes, {});
  return model;
}

void tell_model(SessionConfig& config, const Core& core, const WorkerOptions& options, bool wants_values) {
  if (!config.job.model_from_worker()) {
    if (options.work)
      fail(ErrorCode::kInvalid,
           "the job '{}' has a model and data of its own, which say how much there is to do: leave "
           "WorkerOptions::work out",
           config.job.job.name);
    return;
  }
  if (!options.work)
    fail(ErrorCode::kInvalid,
         "the model and the work of job '{}' come with its first worker, and later ones must agree: give "
         "WorkerOptions::work",
         config.job.job.name);
  check_optimizer(config.job, options.optimizer);
  auto told = std::make_shared<ToldModel>();
  told->model = core.model;
  told->records = options.work->records;
  told->batch_size = options.work->batch_size;
  told->epochs = options.work->epochs;
  told->drop_last = options.work->drop_last;
  check(*told);
  config.told = told;
  if (!wants_values) return;
  config.dense = first_values(core, options, false);
  config.buffers = first_values(core, options, true);
}

}  // namespace embers::client::detail
