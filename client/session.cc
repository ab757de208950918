#include "client/session.h"

#include <absl/cleanup/cleanup.h>
#include <unistd.h>

#include "base/suggest.h"
#include "client/admin.h"
#include "client/arguments.h"
#include "client/declared_model.h"
#include "client/session_impl.h"

namespace embers::client {

using namespace detail;

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
  impl->join(wire::Role::READER, nullptr);
  return Session(std::move(impl));
}

Session Session::join_as_worker(const WorkerOptions& options) {
  auto impl = std::make_unique<Impl>(options, model_of(options));
  impl->join(wire::Role::WORKER, &options);
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
  return impl_->lookup(table, keys, rows);
}

Versions Session::lookup(std::string_view table, std::span<const std::string_view> keys,
                         std::span<float> rows) {
  return impl_->lookup(table, keys, rows);
}

std::optional<Versions> Session::lookup_for(std::chrono::duration<double> time, std::string_view table,
                                            std::span<const int64_t> keys, std::span<float> rows) {
  return impl_->lookup_for(time, table, KeysView{KeyKind::kInt64, keys, {}, {}}, rows);
}

std::optional<Versions> Session::lookup_for(std::chrono::duration<double> time, std::string_view table,
                                            std::span<const std::string_view> keys, std::span<float> rows) {
  Keys list(KeyKind::kBytes);
  for (const std::string_view key : keys) list.push_back(key);
  return impl_->lookup_for(time, table, list, rows);
}

std::vector<std::vector<float>> Session::parameters() { return impl_->parameters(); }

void Session::scan(std::string_view table, const Visitor& visit) { impl_->scan(table, visit); }

namespace {

void check_worker(const Core& core) {
  core.check_process();
  if (core.model.tables.empty())
    fail(ErrorCode::kInvalid,
         "this session joined as a reader, which is leased nothing and changes nothing: join as a worker");
}

void check_worker(const Core& core, bool draws) {
  check_worker(core);
  if (draws != (core.window > 0))
    fail(ErrorCode::kInvalid, "this session {}",
         draws ? "has no window (WorkerOptions::window): use lease()"
               : "has a window (WorkerOptions::window): use draw()");
}

}  // namespace

void Session::import_rows(const TableKeys& keys, std::span<const float> rows) {
  check_worker(*impl_->core);
  impl_->import_rows(keys, rows);
}

Minibatch Session::lease() {
  check_worker(*impl_->core, false);
  return {impl_->core, *impl_->core->lease(std::nullopt)};
}

Session::Draw Session::draw() {
  check_worker(*impl_->core, true);
  return *impl_->draw(std::nullopt);
}

std::optional<Session::Draw> Session::draw_for(std::chrono::duration<double> time) {
  check_worker(*impl_->core, true);
  return impl_->draw(after(time));
}

bool Session::settle_for(std::chrono::duration<double> time) {
  check_worker(*impl_->core);
  return impl_->core->settle(after(time));
}

bool Session::begins_ahead() const { return impl_->core->asks_ahead; }

void Session::give_back_undrawn() {
  check_worker(*impl_->core, true);
  impl_->core->give_back_undrawn();
}

std::optional<Minibatch> Session::lease_for(std::chrono::duration<double> time) {
  check_worker(*impl_->core, false);
  auto work = impl_->core->lease(after(time));
  if (!work) return std::nullopt;
  return Minibatch(impl_->core, std::move(*work));
}

void Session::save(const std::string& directory) {
  impl_->core->check_process();
  impl_->core->begin_to_save();
  const absl::Cleanup end = [this] { impl_->core->end_saving(); };
  try {
    Admin({impl_->options}).checkpoint(directory, [this] { impl_->core->give_back_waiting(); });
  } catch (const Error& e) {  // the session may know why the master is gone
    if (e.code() == ErrorCode::kUnreachable) impl_->core->throw_failure_within(kVerdict);
    throw;
  }
}

void Session::fail_job(const Error& why) {
  check_worker(*impl_->core);
  impl_->core->fail_job(why);
  impl_->core->wait_for_end(after(impl_->options.timeout));
}

void Session::stop_job() noexcept {
  if (impl_ && impl_->core->process == static_cast<int>(::getpid())) impl_->stop_job();
}

void Session::close() noexcept {
  if (impl_ && impl_->core->process == static_cast<int>(::getpid())) impl_->close();
}

}  // namespace embers::client
