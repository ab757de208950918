#include "client/session.h"

#include <unistd.h>

#include <algorithm>

#include "actors/system_config.h"
#include "actors/transport/transport.h"
#include "base/suggest.h"
#include "client/leased_work.h"
#include "client/pull.h"
#include "client/reach_master.h"

namespace embers::client {
namespace {

using Clock = std::chrono::steady_clock;
using detail::Core;
using detail::LeasedWork;
using State = LeasedWork::State;

// Rows are looked up in parts of this many bytes at most, so that no message is too large.
constexpr size_t kPartBytes = size_t{32} << 20;

Clock::time_point after(std::chrono::duration<double> time) {
  // Longer than anybody waits, and short enough for the clock's range.
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365);
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::clamp(time, decltype(time)(0), kLongest));
}

// What is left until then, for a request.
caf::duration until(Clock::time_point deadline) {
  const auto left = std::max<Clock::duration>(deadline - Clock::now(), std::chrono::milliseconds(1));
  return caf::duration(std::chrono::ceil<std::chrono::milliseconds>(left));
}

KeyKind kind_of(KeyType type) { return type == KeyType::kInt64 ? KeyKind::kInt64 : KeyKind::kBytes; }
KeyType type_of(KeyKind kind) { return kind == KeyKind::kInt64 ? KeyType::kInt64 : KeyType::kBytes; }

// The model as a worker's program describes it; the master adds the rest.
ModelSpec model_of(const WorkerOptions& options) {
  ModelSpec model;
  const auto add = [&](const std::string& name, uint32_t dim, KeyKind kind) {
    TableSpec& table = model.tables.emplace_back();
    table.name = name;
    table.dim = dim;
    table.key_kind = kind;
  };
  for (const Table& table : options.tables) add(table.name, table.dim, kind_of(table.keys));
  bool parameters = false, buffers = false;
  for (const Parameter& p : options.parameters) {
    (p.buffer ? buffers : parameters) = true;
    if (std::any_of(p.shape.begin(), p.shape.end(), [](int64_t size) { return size < 0; }))
      fail(ErrorCode::kInvalid, "parameter '{}' has a negative size in its shape", p.name);
    model.dense.push_back({p.name, p.shape, p.buffer});
  }
  if (parameters) add(kDenseTable, kDenseChunk, KeyKind::kBytes);
  if (buffers) add(kBufferTable, kDenseChunk, KeyKind::kBytes);
  return model;
}

// The number of a table whose rows may be asked for.
TableId find_table(const std::vector<TableSpec>& tables, std::string_view name) {
  std::vector<std::string> names;
  for (TableId id = 0; id < tables.size(); ++id) {
    if (is_reserved(tables[id].name)) continue;
    if (tables[id].name == name) return id;
    names.push_back(tables[id].name);
  }
  fail(ErrorCode::kUnknownTable, "the job has no embedding table '{}'{}", name, suggestion(name, names));
}

void check_kind(const TableSpec& table, KeyKind given) {
  if (table.key_kind != given)
    fail(ErrorCode::kInvalid, "table '{}' has {} keys, but {} keys were given", table.name,
         embers::name(table.key_kind), embers::name(given));
}

void check_size(const std::string& what, size_t given, size_t expected) {
  if (given != expected)
    fail(ErrorCode::kInvalid, "{} has {} floats, but {} are needed", what, given, expected);
}

JobLocation location(const Options& options) {
  if (options.master.empty() == options.job_dir.empty())
    fail(ErrorCode::kInvalid,
         "where is the master? Give its address (Options::master) or its job directory (Options::job_dir), "
         "and "
         "not both");
  return {options.master, options.job_dir, options.secret_file, options.insecure, options.connect_timeout};
}

KeysView view(std::span<const int64_t> ints) { return {KeyKind::kInt64, ints, {}, {}}; }

}  // namespace

// --- the session ---------------------------------------------------------------------------------

struct Session::Impl {
  Impl(const Options& o, ModelSpec model)
      : options(o),
        core(std::make_shared<Core>(std::move(model))),
        access(find_job(location(o))),
        system(system_config),
        transport(system, access.credentials) {}

  ~Impl() { close(); }

  void join(wire::Role role, const std::vector<std::string>& numeric, const std::vector<std::string>& data) {
    const Clock::time_point deadline = after(options.timeout);
    MasterLink master =
        reach_master(transport, access,
                     {.role = role, .connect_timeout = options.connect_timeout, .patience = until(deadline)});
    job = master.job.job.name;
    run = master.run;
    auto config = std::make_shared<SessionConfig>();
    connect_over(transport, master, options.connect_timeout, *config);
    config->job = std::move(master.job);
    config->model = core->model;
    config->numeric = numeric;
    config->settings = job::settings(config->job.source);
    config->settings.insert(config->settings.end(), data.begin(), data.end());
    if (role == wire::Role::WORKER) config->parts = core->parts();
    config->on_owners = [core = core](std::shared_ptr<const Owners> owners) {
      core->set_owners(std::move(owners));
    };
    config->on_last_lease = [core = core] { core->last_lease(); };
    config->on_end = [core = core, drop = config->drop_owner](std::optional<Error> error) {
      core->end(std::move(error));
      // Look-ups that wait for an owner then say why the session has ended.
      if (const auto owners = core->known_owners())
        for (const OwnerHandles& owner : owners->handles) drop(owner);
    };
    actor = spawn_session(system, config);
    const auto owners = core->owners(deadline);
    if (!owners)
      fail(ErrorCode::kTimeout,
           "the job '{}' of {} has not begun within {:g} s: check that its shards and workers have joined, "
           "or wait longer (Options::timeout)",
           job, access.master, options.timeout.count());
    for (const TableSpec& table : owners->tables)
      if (!is_reserved(table.name)) tables.push_back({table.name, table.dim, type_of(table.key_kind)});
  }

  void close() noexcept {
    if (std::exchange(closed, true)) return;
    try {
      if (actor) {
        caf::anon_send(actor, leave_atom::value);
        core->close();
        if (!core->wait_for_end(after(options.timeout))) {
          caf::anon_send(actor, end_atom::value);
          core->wait_for_end(after(std::chrono::seconds(5)));
        }
      }
      transport.stop();
      core->forget_actors();
      actor = nullptr;
    } catch (const std::exception&) {  // nothing is left to be told
    }
  }

  Versions lookup_part(TableId table, KeysView keys, std::span<float> rows, Clock::time_point deadline) {
    std::shared_ptr<const Owners> owners = core->owners(deadline);
    for (;;) {
      Work work;
      work.evaluate = true;  // creates no rows
      work.origin.job = run;
      work.origin.incarnation = owners->incarnation;
      work.origin.map_version = owners->map.version;
      work.versions.assign(owners->handles.size(), std::nullopt);
      try {
        caf::scoped_actor self{system};
        pull_now(self, *owners, work, {{table, keys}}, {rows}, until(deadline));
        return versions_of(work);
      } catch (const Error& e) {
        if (!has_moved(*owners, e)) throw_failed(owners->tables[table].name, e);
        caf::anon_send(actor, look_atom::value, owners->map.version);
        auto moved = core->owners(deadline, owners.get());
        if (!moved)
          fail(ErrorCode::kTimeout,
               "table '{}' of job '{}': {}, and is not back within {:g} s (Options::timeout)",
               owners->tables[table].name, job, e.what(), options.timeout.count());
        owners = std::move(moved);
      }
    }
  }

  // The master may know more about an owner that is gone.
  [[noreturn]] void throw_failed(const std::string& table, const Error& why) {
    if (why.code() == ErrorCode::kUnavailable || why.code() == ErrorCode::kUnreachable)
      core->throw_end_within(kVerdict);
    fail(why.code(), "table '{}' of job '{}': {}", table, job, why.what());
  }

  static Versions versions_of(const Work& work) {
    Versions versions{UINT64_MAX, 0};
    for (const auto& version : work.versions) {
      if (!version) continue;
      versions.oldest = std::min(versions.oldest, *version);
      versions.newest = std::max(versions.newest, *version);
    }
    return versions.oldest == UINT64_MAX ? Versions{} : versions;
  }

  // Checks what is asked for, then looks it up part by part. part(i, n) is a list of keys [i, i + n).
  template <class Bytes, class Part>
  Versions lookup(std::string_view name, KeyKind kind, size_t keys, std::span<float> rows, const Bytes& bytes,
                  const Part& part) {
    core->check_process();
    const Clock::time_point deadline = after(options.timeout);
    const auto owners = core->owners(deadline);
    const TableId id = find_table(owners->tables, name);
    const TableSpec& table = owners->tables[id];
    check_kind(table, kind);
    check_size(fmt::format("the place for {} rows of table '{}'", keys, table.name), rows.size(),
               keys * table.dim);
    Versions all{UINT64_MAX, 0};
    for (size_t begin = 0, n; begin < keys; begin += n) {
      size_t size = 0;
      for (n = 0; begin + n < keys && (n == 0 || size < kPartBytes); ++n)
        size += std::max(bytes(begin + n), table.dim * sizeof(float));
      const auto list = part(begin, n);
      const Versions v = lookup_part(id, list, rows.subspan(begin * table.dim, n * table.dim), deadline);
      all = {std::min(all.oldest, v.oldest), std::max(all.newest, v.newest)};
    }
    return keys == 0 ? Versions{} : all;
  }

  const Options options;
  const std::shared_ptr<Core> core;
  const JobAccess access;
  std::string job;
  uint64_t run = 0;
  std::vector<Table> tables;
  bool closed = false;
  SystemConfig system_config;
  caf::actor_system system;
  Transport transport;
  SessionActor actor;  // before the system ends
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;

Session& Session::operator=(Session&& other) noexcept {
  if (this != &other) {
    Session old(std::move(*this));
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Session::~Session() {
  // Connections and threads are the parent's: a child of it leaves them alone.
  if (impl_ && impl_->core->process != static_cast<int>(::getpid())) static_cast<void>(impl_.release());
}

Session Session::join_as_reader(const Options& options) {
  auto impl = std::make_unique<Impl>(options, ModelSpec());
  impl->join(wire::Role::READER, {}, {});
  return Session(std::move(impl));
}

Session Session::join_as_worker(const WorkerOptions& options) {
  auto impl = std::make_unique<Impl>(options, model_of(options));
  impl->join(wire::Role::WORKER, options.numeric, options.data);
  return Session(std::move(impl));
}

const std::string& Session::job() const { return impl_->job; }
const std::vector<Table>& Session::tables() const { return impl_->tables; }

const Table& Session::table(std::string_view name) const {
  std::vector<std::string> names;
  for (const Table& table : impl_->tables) {
    if (table.name == name) return table;
    names.push_back(table.name);
  }
  fail(ErrorCode::kUnknownTable, "the job '{}' has no embedding table '{}'{}", impl_->job, name,
       suggestion(name, names));
}

Versions Session::lookup(std::string_view table, std::span<const int64_t> keys, std::span<float> rows) {
  return impl_->lookup(
      table, KeyKind::kInt64, keys.size(), rows, [](size_t) { return sizeof(int64_t); },
      [&](size_t begin, size_t n) { return view(keys.subspan(begin, n)); });
}

Versions Session::lookup(std::string_view table, std::span<const std::string_view> keys,
                         std::span<float> rows) {
  return impl_->lookup(
      table, KeyKind::kBytes, keys.size(), rows, [&](size_t i) { return keys[i].size() + sizeof(uint32_t); },
      [&](size_t begin, size_t n) {
        Keys list(KeyKind::kBytes);
        for (const std::string_view key : keys.subspan(begin, n)) list.push_back(key);
        return list;
      });
}

namespace {

void check_worker(const Core& core) {
  core.check_process();
  if (core.model.tables.empty())
    fail(ErrorCode::kInvalid, "this session joined as a reader, which is leased nothing: join as a worker");
}

}  // namespace

Minibatch Session::lease() {
  check_worker(*impl_->core);
  return {impl_->core, *impl_->core->lease(std::nullopt)};
}

std::optional<Minibatch> Session::lease_for(std::chrono::duration<double> time) {
  check_worker(*impl_->core);
  auto work = impl_->core->lease(after(time));
  if (!work) return std::nullopt;
  return Minibatch(impl_->core, std::move(*work));
}

void Session::close() noexcept {
  if (impl_ && impl_->core->process == static_cast<int>(::getpid())) impl_->close();
}

// --- a minibatch ---------------------------------------------------------------------------------

namespace {

// What the caller asks of a minibatch must fit its state.
LeasedWork& in_state(const std::shared_ptr<Core>& core, const std::shared_ptr<LeasedWork>& work, State wanted,
                     const char* what) {
  if (work == nullptr) fail(ErrorCode::kInvalid, "cannot {} a minibatch that is over", what);
  core->check_process();
  const State state = core->state(*work);
  if (state == wanted) return *work;
  if (state == State::kOver)
    fail(ErrorCode::kInvalid,
         "cannot {} minibatch {} of epoch {}: it has been given back, because its session was closed or an "
         "owner refused it",
         what, work->origin.minibatch, work->origin.epoch);
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

void Minibatch::pull(std::span<const TableKeys> keys) {
  LeasedWork& work = in_state(core_, work_, State::kLeased, "pull");
  std::vector<TableId> tables;
  std::vector<Keys> asked;
  for (const TableKeys& list : keys) {
    const TableId id = find_table(core_->model.tables, list.table);
    const TableSpec& table = core_->model.tables[id];
    if (std::find(tables.begin(), tables.end(), id) != tables.end())
      fail(ErrorCode::kInvalid, "table '{}' is listed twice: put its keys into one list", table.name);
    const bool is_bytes = !list.bytes.empty();
    if (is_bytes || !list.ints.empty()) check_kind(table, is_bytes ? KeyKind::kBytes : KeyKind::kInt64);
    if (is_bytes && !list.ints.empty())
      fail(ErrorCode::kInvalid, "table '{}' was given both int64 and byte keys", table.name);
    Keys& copy = asked.emplace_back(table.key_kind);
    copy.reserve(list.ints.size() + list.bytes.size());
    for (const int64_t key : list.ints) copy.push_back(key);
    for (const std::string_view key : list.bytes) copy.push_back(key);
    tables.push_back(id);
  }
  work.asked = std::move(asked);
  work.keys.clear();
  for (size_t i = 0; i < tables.size(); ++i) work.keys.push_back({tables[i], work.asked[i]});
  core_->pull(work_);
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
  const LeasedWork& work = in_state(core_, work_, State::kPulled, "read the parameters of");
  if (i >= core_->places.size())
    fail(ErrorCode::kInvalid, "there is no parameter {}: the model has {}", i, core_->places.size());
  const detail::ParameterPlace& place = core_->places[i];
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
  work.dense_gradients = chunks_like(work.rows.dense.size() / kDenseChunk, {});
  work.buffer_values = chunks_like(work.rows.buffers.size() / kDenseChunk, work.rows.buffers.span());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const detail::ParameterPlace& place = core_->places[i];
    std::copy(parameters[i].begin(), parameters[i].end(),
              (place.buffer ? work.buffer_values : work.dense_gradients).data() + place.begin);
  }
  work.dense = work.dense_gradients.span();
  work.buffers = work.buffer_values.span();
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
