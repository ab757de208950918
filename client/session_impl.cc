#include "client/session_impl.h"

#include <spdlog/spdlog.h>

#include "client/arguments.h"
#include "client/declared_model.h"

namespace embers::client {

using namespace detail;

namespace {

constexpr auto kEnd = std::chrono::seconds(5);  // for a session that could not leave in time

}  // namespace

Session::Impl::Impl(const Options& o, ModelSpec model)
    : options(o),
      core(std::make_shared<Core>(std::move(model))),
      access(find_job(location_of(o, "Options"))) {
  core->set_system(SessionSystem::make(access.credentials));
}

void Session::Impl::join(wire::Role role, const WorkerOptions* worker) {
  const Clock::time_point deadline = after(options.timeout);
  const SystemUse use(*core);
  MasterLink master =
      reach_master(use.transport(), access,
                   {.role = role, .connect_timeout = options.connect_timeout, .patience = until(deadline)});
  if (!options.version.empty() && options.version != master.version)
    fail(ErrorCode::kMismatch,
         "this program is of embers {}, but {} is of embers {}: install the same version on both sides",
         options.version, access.master, master.version);
  job = master.job.job.name;
  run = master.run;
  const auto config = make_config(std::move(master), worker, use.transport());
  if (worker != nullptr && worker->owner) make_owner(use.system(), *worker->owner, *config);
  core->set_session(spawn_session(use.system(), config));
  if (const auto here = owner()) here->start();
  const auto owners = wait_for_owners(deadline);
  has_begun_ = true;
  if (worker != nullptr) core->carry_own_steps(config->job, owners->tables);
  for (const embers::TableSpec& table : owners->tables)
    if (!is_reserved(table.name))
      tables.push_back({table.name, table.dim, type_of(table.key_kind), table.input_dim,
                        std::string(embers::name(table.number_type)),
                        std::string(embers::name(table.partition))});
}

std::shared_ptr<SessionConfig> Session::Impl::make_config(MasterLink master, const WorkerOptions* worker,
                                                          Transport& transport) {
  auto config = std::make_shared<SessionConfig>();
  connect_over(transport, master, options.connect_timeout, *config);
  config->job = std::move(master.job);
  config->model = core->model;
  config->settings = job::settings(config->job.source);
  if (worker != nullptr) {
    config->numeric = worker->numeric;
    config->settings.insert(config->settings.end(), worker->data.begin(), worker->data.end());
    tell_model(*config, *core, *worker, master.wants_model);
  }
  if (master.role == wire::Role::WORKER) {
    config->parts = core->parts();
    config->on_over = [core = core](const WorkPtr& work) { core->over(work); };
  }
  if (worker != nullptr && worker->window > 0) {
    config->window = core->window = worker->window;
    core->asks_ahead = config->job.training.mode == job::Mode::kAsync;
    config->on_later = [core = core] { core->later(); };
    config->on_begun = [core = core](const WorkPtr& work, bool begun) { core->begun(work, begun); };
  }
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
  return config;
}

// --- the owner of this process -------------------------------------------------------------------

// A refused owner has the session leave: the program wanted both.
void Session::Impl::make_owner(caf::actor_system& system, const OwnerPlace& place, SessionConfig& config) {
  OwnerOptions how;
  for (const std::string& endpoint : place.listen) how.listen.push_back(parse_endpoint(endpoint));
  how.advertise = parse_advertise(place.advertise);
  how.ports = parse_port_range(place.port_range);
  how.connect_timeout = options.connect_timeout;
  const auto here =
      std::make_shared<ReplicaOwner>(system, how, access, [core = core](const Error&) { core->leave(); });
  here->connect_directly(config);
  const MutexLock lock(owner_mutex_);
  owner_ = here;
}

std::shared_ptr<ReplicaOwner> Session::Impl::owner() const {
  const MutexLock lock(owner_mutex_);
  return owner_;
}

std::shared_ptr<const Owners> Session::Impl::wait_for_owners(Clock::time_point deadline) {
  try {
    auto owners = core->owners(deadline);
    // Where all shards are there without it, the session has joined before its owner is refused.
    if (const auto here = owner(); owners && here && !here->serves_by(deadline)) owners = nullptr;
    if (owners) return owners;
    fail(ErrorCode::kTimeout,
         "the job '{}' of {} has not begun within {:g} s: check that its shards and workers have joined, "
         "or wait longer (Options::timeout)",
         job, access.master, options.timeout.count());
  } catch (const Error& e) {
    const auto here = owner();
    if (!here) throw;
    if (here->has_ended_by(Clock::now()))
      if (const auto refused = here->wait_for_end()) throw Error(*refused);
    here->withdraw(e.what());
    throw;
  }
}

void Session::Impl::end_owner() {
  const auto here = owner();
  if (!here) return;
  if (has_begun_) here->wait_for_end();
  here->leave();
  const MutexLock lock(owner_mutex_);
  owner_ = nullptr;
}

void Session::Impl::stop_job() noexcept {
  try {
    const SystemUse use(*core);
    if (const auto here = owner()) here->ask_to_stop();
  } catch (const std::exception&) {  // it is closed
  }
}

void Session::Impl::close() noexcept {
  const MutexLock lock(closing_);
  if (std::exchange(closed_, true)) return;
  const SystemVisit visit;
  try {
    if (const auto here = owner(); has_begun_ && here && !core->has_finished()) {
      spdlog::info(
          "this program leaves the job '{}' while there is work left, and holds a share of its rows: asking "
          "the master to save and end the job",
          job);
      here->ask_to_stop();
    }
    if (core->leave() && !core->wait_for_end(after(options.timeout))) {
      core->end_session();
      core->wait_for_end(after(kEnd));
    }
    end_owner();
    const auto system = core->let_go_of_system();
    system->transport.stop();        // calls that are under way end now
  } catch (const std::exception&) {  // nothing is left to be told
  }
}

std::optional<Session::Draw> Session::Impl::draw(std::optional<Clock::time_point> deadline) {
  bool later = false;
  auto work = core->draw(deadline, later);
  if (!work) return std::nullopt;
  if (*work == nullptr) return Draw{later ? Draw::Kind::kLater : Draw::Kind::kOver};
  return Draw{Draw::Kind::kMinibatch, Minibatch(core, std::move(*work))};
}

}  // namespace embers::client
