#include "client/session.h"

#include <unistd.h>

#include <algorithm>

#include "actors/system_config.h"
#include "actors/transport/transport.h"
#include "base/suggest.h"
#include "client/arguments.h"
#include "client/leased_work.h"
#include "client/pull.h"
#include "client/reach_master.h"

namespace embers::client {
namespace {

using namespace detail;
using Clock = std::chrono::steady_clock;

// Rows are looked up in parts of this many bytes at most, so that no message is too large.
constexpr size_t kPartBytes = size_t{32} << 20;

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

KeysView view(std::span<const int64_t> ints) { return {KeyKind::kInt64, ints, {}, {}}; }

}  // namespace

struct Session::Impl {
  Impl(const Options& o, ModelSpec model)
      : options(o),
        core(std::make_shared<Core>(std::move(model))),
        access(find_job(location_of(o, "Options"))),
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

}  // namespace embers::client
