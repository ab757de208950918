// Minibatches that callers of client::Session compute.
#include <unistd.h>

#include <algorithm>

#include "client/arguments.h"
#include "client/leased_work.h"
#include "client/session.h"

namespace embers::client {
namespace {

using namespace detail;
using State = LeasedWork::State;

// What the caller asks of a minibatch must fit its state.
LeasedWork& in_state(const std::shared_ptr<Core>& core, const std::shared_ptr<LeasedWork>& work, State wanted,
                     const char* what) {
  if (work == nullptr) fail(ErrorCode::kInvalid, "cannot {} a minibatch that is over", what);
  core->check_process();
  const State state = core->state(*work);
  if (state == wanted) return *work;
  if (state == State::kOver)
    fail(ErrorCode::kInvalid, "cannot {} minibatch {} of epoch {}: it has been given back, because {}", what,
         work->origin.minibatch, work->origin.epoch,
         core->is_closing() ? "its session was closed: join again"
                            : "an owner refused it: lease the next one");
  const char* const now = state == State::kLeased    ? "it has not been pulled"
                          : state == State::kPulling ? "its rows have not been waited for"
                                                     : "its rows have been pulled already";
  fail(ErrorCode::kInvalid, "cannot {} minibatch {} of epoch {}: {}", what, work->origin.minibatch,
       work->origin.epoch, now);
}

template <class T>
void copy(std::span<const T> from, std::vector<T>& to) {
  to.assign(from.begin(), from.end());
}

void take_report(LeasedWork& work, const Report& report) {
  const auto check = [&](const char* what, size_t size, bool may_be_empty) {
    if (size != report.examples && !(may_be_empty && size == 0))
      fail(ErrorCode::kInvalid, "the report of minibatch {} has {} {} for {} examples", work.origin.minibatch,
           size, what, report.examples);
  };
  check("scores", report.scores.size(), false);
  check("labels", report.labels.size(), true);
  if (work.evaluate) check("records", report.records.size(), false);
  if (report.examples > UINT32_MAX)
    fail(ErrorCode::kInvalid, "a minibatch has at most {} examples", UINT32_MAX);
  copy(report.scores, work.scores);
  copy(report.labels, work.labels);
  copy(report.records, work.records);
  work.origin.examples = static_cast<uint32_t>(report.examples);
  work.report = {report.examples, report.skipped, report.loss_sum, work.scores, work.labels, work.records};
}

// A caller's lists of keys, copied and checked.
struct Lists {
  std::vector<TableId> tables;
  std::deque<Keys> keys;
};
Lists copied_lists(const ModelSpec& model, std::span<const TableKeys> given) {
  Lists lists;
  for (const TableKeys& list : given) {
    const TableId id = find_table(model.tables, list.table);
    const embers::TableSpec& table = model.tables[id];
    if (std::find(lists.tables.begin(), lists.tables.end(), id) != lists.tables.end())
      fail(ErrorCode::kInvalid, "table '{}' is listed twice: put its keys into one list", table.name);
    const bool is_bytes = !list.bytes.empty();
    if (is_bytes || !list.ints.empty()) check_kind(table, is_bytes ? KeyKind::kBytes : KeyKind::kInt64);
    if (is_bytes && !list.ints.empty())
      fail(ErrorCode::kInvalid, "table '{}' was given both int64 and byte keys", table.name);
    Keys& copy = lists.keys.emplace_back(table.key_kind);
    copy.reserve(list.ints.size() + list.bytes.size());
    for (const int64_t key : list.ints) copy.push_back(key);
    for (const std::string_view key : list.bytes) copy.push_back(key);
    lists.tables.push_back(id);
  }
  return lists;
}

// Owners take one list of gradients per table: those of a table that was pulled several times become one.
void join_gradients(LeasedWork& work) {
  for (size_t i = 0; i < work.gradients.size(); ++i) {
    TableGradients& all = work.gradients[i];
    const auto same = [&](const TableGradients& g) { return &g != &all && g.table == all.table; };
    if (std::none_of(work.gradients.begin() + static_cast<std::ptrdiff_t>(i), work.gradients.end(), same))
      continue;
    Keys& keys = work.joined_keys.emplace_back(all.keys);
    size_t floats = all.values.size();
    for (const TableGradients& g : work.gradients) {
      if (!same(g)) continue;
      floats += g.values.size();
      for (size_t k = 0; k < g.keys.size(); ++k) keys.push_back_from(g.keys, k);
    }
    FloatBuffer values(floats);
    float* to = std::copy(all.values.begin(), all.values.end(), values.data());
    for (const TableGradients& g : work.gradients)
      if (same(g)) to = std::copy(g.values.begin(), g.values.end(), to);
    all.keys = keys;
    all.values = work.row_gradients.emplace_back(std::move(values)).span();
    work.gradients.erase(
        std::remove_if(work.gradients.begin() + static_cast<std::ptrdiff_t>(i) + 1, work.gradients.end(),
                       [&](const auto& g) { return g.table == all.table; }),
        work.gradients.end());
  }
}

FloatBuffer copied(std::span<const float> values) {
  FloatBuffer buffer(values.size());
  std::copy(values.begin(), values.end(), buffer.data());
  return buffer;
}

// A reserved table's chunks: zeros, where `like` is empty, or its values.
FloatBuffer chunks_like(size_t chunks, std::span<const float> like) {
  FloatBuffer values(chunks * kDenseChunk);
  if (like.size() == values.size())
    std::copy(like.begin(), like.end(), values.data());
  else
    std::fill(values.span().begin(), values.span().end(), 0.0f);
  return values;
}

}  // namespace

Minibatch::Minibatch(std::shared_ptr<Core> core, std::shared_ptr<LeasedWork> work)
    : core_(std::move(core)), work_(std::move(work)) {}

Minibatch& Minibatch::operator=(Minibatch&& other) noexcept {
  if (this != &other) {
    if (work_) core_->give_back(work_);
    core_ = std::move(other.core_);
    work_ = std::move(other.work_);
  }
  return *this;
}

Minibatch::~Minibatch() {
  if (work_ && core_->process == static_cast<int>(::getpid())) core_->give_back(work_);
}

bool Minibatch::evaluate() const { return work_ && work_->evaluate; }
uint64_t Minibatch::epoch() const { return work_ ? work_->origin.epoch : 0; }
uint64_t Minibatch::number() const { return work_ ? work_->origin.minibatch : 0; }
uint64_t Minibatch::version() const { return work_ ? work_->origin.version : 0; }

bool Minibatch::begin() {
  in_state(core_, work_, State::kLeased, "begin");
  return core_->window == 0 || *core_->begin(work_, std::nullopt);
}

void Minibatch::ask_to_begin() {
  in_state(core_, work_, State::kLeased, "begin");
  if (core_->window > 0) core_->ask_to_begin(work_);
}

std::optional<bool> Minibatch::begin_for(std::chrono::duration<double> time) {
  in_state(core_, work_, State::kLeased, "begin");
  return core_->window == 0 ? true : core_->begin(work_, after(time));
}

void Minibatch::pull(std::span<const TableKeys> keys) {
  LeasedWork& work = in_state(core_, work_, State::kLeased, "pull");
  if (core_->window > 0 && !core_->has_begun(work))
    fail(ErrorCode::kInvalid, "cannot pull minibatch {} of epoch {}: its work has not begun (begin())",
         work.origin.minibatch, work.origin.epoch);
  Lists lists = copied_lists(core_->model, keys);
  work.asked = std::move(lists.keys);
  work.keys.clear();
  for (size_t i = 0; i < lists.tables.size(); ++i) work.keys.push_back({lists.tables[i], work.asked[i]});
  core_->pull(work_);
}

bool Minibatch::pull_more(std::span<const TableKeys> keys) {
  LeasedWork& work = in_state(core_, work_, State::kPulled, "pull more for");
  const SystemUse use(*core_);
  Lists lists = copied_lists(core_->model, keys);
  const auto owners = core_->owners(after(std::chrono::seconds(0)));
  std::vector<TableKeyList> asked;
  std::vector<FloatBuffer> rows;
  std::vector<std::span<float>> places;
  for (size_t i = 0; i < lists.tables.size(); ++i) {
    asked.push_back({lists.tables[i], lists.keys[i]});
    places.push_back(
        rows.emplace_back(lists.keys[i].size() * core_->model.tables[lists.tables[i]].dim).span());
  }
  try {
    core_->pull_now(*owners, work, std::move(asked), std::move(places));
  } catch (const Error& e) {
    if (!is_given_back(*owners, work, e)) throw;
    give_back();
    return false;
  }
  for (size_t i = 0; i < lists.tables.size(); ++i) {
    work.keys.push_back({lists.tables[i], work.asked.emplace_back(std::move(lists.keys[i]))});
    work.rows.bets.push_back(std::move(rows[i]));
  }
  ++work.late_pulls;
  return true;
}

bool Minibatch::wait() {
  if (!work_) fail(ErrorCode::kInvalid, "a minibatch that is over has no rows to wait for");
  core_->check_process();
  if (core_->state(*work_) == State::kLeased) in_state(core_, work_, State::kPulled, "wait for");
  core_->wait(work_, std::nullopt);
  if (core_->state(*work_) == State::kPulled) return true;
  work_ = nullptr;
  return false;
}

bool Minibatch::wait_for(std::chrono::duration<double> time) {
  if (!work_) fail(ErrorCode::kInvalid, "a minibatch that is over has no rows to wait for");
  core_->check_process();
  if (core_->state(*work_) == State::kLeased) in_state(core_, work_, State::kPulled, "wait for");
  return core_->wait(work_, after(time));
}

std::span<const float> Minibatch::rows(size_t i) const {
  const LeasedWork& work = in_state(core_, work_, State::kPulled, "read the rows of");
  if (i >= work.rows.bets.size())
    fail(ErrorCode::kInvalid, "there is no list {}: the pull had {}", i, work.rows.bets.size());
  return work.rows.bets[i].span();
}

std::span<const float> Minibatch::parameter(size_t i) const {
  LeasedWork& work = in_state(core_, work_, State::kPulled, "read the parameters of");
  if (i >= core_->places.size())
    fail(ErrorCode::kInvalid, "there is no parameter {}: the model has {}", i, core_->places.size());
  const detail::ParameterPlace& place = core_->places[i];
  if (!place.buffer) core_->add_own_steps(work);
  return (place.buffer ? work.rows.buffers : work.rows.dense).span().subspan(place.begin, place.size);
}

void Minibatch::push(std::span<const std::span<const float>> rows,
                     std::span<const std::span<const float>> parameters, const Report& report) {
  LeasedWork& work = in_state(core_, work_, State::kPulled, "push");
  if (work.evaluate)
    fail(ErrorCode::kInvalid, "minibatch {} is evaluated, so it has no gradients: finish it",
         work.origin.minibatch);
  if (rows.size() != work.keys.size())
    fail(ErrorCode::kInvalid, "{} lists of gradients were given, but {} lists of keys were pulled",
         rows.size(), work.keys.size());
  const ModelSpec& model = core_->model;
  if (parameters.size() != model.dense.size())
    fail(ErrorCode::kInvalid, "gradients of {} parameters were given, but the model has {}",
         parameters.size(), model.dense.size());
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].empty())
      check_size(fmt::format("the gradient of table '{}'", model.tables[work.keys[i].table].name),
                 rows[i].size(), work.rows.bets[i].size());
  for (size_t i = 0; i < parameters.size(); ++i)
    if (!parameters[i].empty())
      check_size(fmt::format("the gradient of '{}'", model.dense[i].name), parameters[i].size(),
                 core_->places[i].size);
  take_report(work, report);

  work.row_gradients.clear();
  work.gradients.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) continue;
    work.row_gradients.push_back(copied(rows[i]));
    work.gradients.push_back({work.keys[i].table, work.keys[i].keys, work.row_gradients.back().span()});
  }
  join_gradients(work);
  // Of several parameters, those without a gradient have zeros: they share chunks with others. Where none has
  // one, nothing is sent, and owners do not apply the update rule; where no buffer has a value, what others
  // said last stands.
  const auto says = [&](bool buffers) {
    for (size_t i = 0; i < parameters.size(); ++i)
      if (core_->places[i].buffer == buffers && !parameters[i].empty()) return true;
    return false;
  };
  work.dense_gradients = chunks_like(says(false) ? work.rows.dense.size() / kDenseChunk : 0, {});
  work.buffer_values =
      chunks_like(says(true) ? work.rows.buffers.size() / kDenseChunk : 0, work.rows.buffers.span());
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].empty()) continue;
    const detail::ParameterPlace& place = core_->places[i];
    std::copy(parameters[i].begin(), parameters[i].end(),
              (place.buffer ? work.buffer_values : work.dense_gradients).data() + place.begin);
  }
  work.dense = work.dense_gradients.span();
  work.buffers = work.buffer_values.span();
  core_->take_own_step(work);
  core_->push(std::exchange(work_, nullptr));
}

void Minibatch::finish(const Report& report) {
  LeasedWork& work = in_state(core_, work_, State::kPulled, "finish");
  if (!work.evaluate)
    fail(ErrorCode::kInvalid, "minibatch {} is for training: push its gradients", work.origin.minibatch);
  take_report(work, report);
  core_->push(std::exchange(work_, nullptr));
}

void Minibatch::give_back() {
  if (work_) core_->give_back(std::exchange(work_, nullptr));
}

}  // namespace embers::client
