#include "client/pipeline/session_actor.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <deque>
#include <map>

#include "actors/errors.h"
#include "client/pipeline/owner_places.h"
#include "client/pipeline/pull.h"
#include "client/pipeline/push.h"

namespace embers {
namespace {

using beat_atom = caf::atom_constant<caf::atom("beat")>;
using quit_atom = caf::atom_constant<caf::atom("quit")>;

using SessionImpl =
    SessionActor::extend<caf::reacts_to<pushed_atom>, caf::reacts_to<WorkPtr>, caf::reacts_to<StageFailure>,
                         caf::reacts_to<beat_atom>, caf::reacts_to<quit_atom>>;

constexpr auto kLeave = std::chrono::seconds(2);

// The stages from pull on. They know where owners were when it began.
struct Pipeline {
  std::vector<StageActor> stages;
  uint32_t works = 0;  // that are in it

  void end() const {
    for (const StageActor& s : stages) caf::anon_send_exit(s, caf::exit_reason::user_shutdown);
  }
};

struct SessionState {
  SessionState() = default;  // no aggregate: see actors/README.md
  using Self = SessionImpl::stateful_pointer<SessionState>;
  static inline const char* name = "session";

  Self self = nullptr;
  std::shared_ptr<const SessionConfig> config;
  std::shared_ptr<const Owners> owners;
  OwnerPlaces places;
  // Owners have moved: no work is begun until there is a new pipeline.
  bool asking = false;                  // the master, where owners are
  std::shared_ptr<const Owners> moved;  // where they are; waits for the last pipeline to be empty
  uint64_t incarnation = 0;
  StageActor reader;
  std::map<uint64_t, Pipeline> pipelines;  // by number; the last one takes works
  std::deque<WorkPtr> queue;               // leased, not yet read
  std::deque<WorkPtr> ready;               // read, not yet in a pipeline
  uint32_t reading = 0;
  uint32_t in_pipeline = 0;  // any, from pull to done
  uint32_t unpushed = 0;     // of these, before their push is answered
  uint64_t last_pipeline = 0;
  bool lease_pending = false;
  bool draws = false;              // window: a lease is to be asked for
  bool rests = false;              // no window: nothing is to be leased for the time being
  uint64_t last_lease = 0;         // received
  uint64_t last_order = 0;         // received, and carried out
  uint64_t pulls = 0, pushes = 0;  // minibatches, for people
  bool all_leased = false;         // the job has no more work
  bool leaving = false;            // no more leases
  bool over = false;
  std::optional<Error> failure;  // waits for the master's verdict
  bool gave_up = false;          // on that verdict: the master is told why this session goes
  std::chrono::duration<double> beat{1}, timeout{10};

  void start(Self pointer, std::shared_ptr<const SessionConfig> c) {
    self = pointer;
    config = std::move(c);
    self->monitor(config->master.address());
    heartbeat();
    self->request(config->master, caf::infinite, join_request())
        .then([this](const Message<wire::JoinReply>& m) { joined(m); },
              [this](caf::error& e) { master_failed(e); });
  }

  Message<wire::JoinRequest> join_request() const {
    return make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
      b.setRole(config->role);
      b.setHost(config->host);
      b.setPid(static_cast<uint64_t>(::getpid()));
      b.setBootId(config->boot_id);
      b.setToken(config->token);
      b.setLabel(config->label);
      if (!is_worker()) return;
      const auto lines = signature(config->model);
      write_texts(b.initModel(lines.size()), lines);
      write_texts(b.initNumeric(config->numeric.size()), config->numeric);
      write_texts(b.initSettings(config->settings.size()), config->settings);
      b.setWindow(config->window);
      if (!config->told) return;
      const auto floats = [](const auto& values) {
        return values ? std::span<const float>(values->span()) : std::span<const float>();
      };
      write(b.initTold(), *config->told, {floats(config->dense), floats(config->buffers)});
    });
  }

  bool is_worker() const { return config->role == wire::Role::WORKER; }

  // Takes the error that ends the session.
  auto ends() {
    return [this](const Error& e) { end(e); };
  }

  void joined(const Message<wire::JoinReply>& m) {
    guarded(
        Kind::kJoinReply,
        [&] {
          connect(m.get());
          if (config->on_owners) config->on_owners(owners);
          start_work();
        },
        ends());
  }

  void connect(wire::JoinReply::Reader reply) {
    auto o = std::make_shared<Owners>();
    incarnation = o->incarnation = reply.getIncarnation();
    const auto& storage = config->job.storage;
    // Halves are precise enough to train on. Who looks rows up gets them as they are.
    if (is_worker()) o->wire = storage.wire_dtype;
    o->memory = config->memory;
    o->may_return = storage.backend != "memory" && !storage.journal.empty() && storage.owner_timeout > 0;
    connect_to(*o, reply.getOwners());
    if (o->handles.empty()) fail(ErrorCode::kBadFrame, "the master did not name any owner");
    o->map = read_owner_map(reply, o->handles.size());
    for (const auto table : reply.getTables()) o->tables.push_back(read(table));
    if (is_worker() && o->tables.size() != config->model.tables.size())
      fail(ErrorCode::kMismatch, "the master has {} tables, but this worker's model has {}", o->tables.size(),
           config->model.tables.size());
    connect_servers(*o, {reply.getServerUser(), reply.getServerPassword()});
    owners = std::move(o);
  }

  void connect_to(Owners& to, capnp::List<wire::JoinReply::Owner>::Reader list) {
    places.update(list, *config, incarnation, [this](const OwnerHandles& owner) {
      self->monitor(owner.optimizer.address());
      self->monitor(owner.shard.address());
    });
    to.handles = places.handles();
  }

  // --- owners that move --------------------------------------------------------------------------

  bool moving() const { return asking || moved; }

  const Owners& newest() const { return moved ? *moved : *owners; }

  // The master knows where they are once all of them are back.
  void find_owners() {
    if (asking || leaving || over || !owners) return;
    asking = true;
    self->request(config->master, caf::infinite,
                  make_message<wire::OwnersRequest>([&](wire::OwnersRequest::Builder b) {
                    b.setIncarnation(incarnation);
                    b.setMapVersion(newest().map.version);
                  }))
        .then(
            [this](const Message<wire::OwnersReply>& m) {
              guarded(
                  Kind::kOwnersReply, [&] { found_owners(m.get()); }, ends());
            },
            [this](caf::error& e) {
              if (!leaving) return master_failed(e);
              asking = false;  // the master leases again what was only read
              moved = nullptr;
              ready.clear();
              if (is_idle()) say_goodbye();
            });
  }

  // Somebody who looks rows up was told that an owner moved, perhaps before the master's next heartbeat.
  void look_again(uint32_t map_version) {
    if (owners && newest().map.version <= map_version) find_owners();
  }

  void found_owners(wire::OwnersReply::Reader reply) {
    asking = false;
    if (reply.getOwners().size() != owners->handles.size())
      fail(ErrorCode::kBadFrame, "the master named {} owners, but {} before", reply.getOwners().size(),
           owners->handles.size());
    auto o = std::make_shared<Owners>(newest());
    connect_to(*o, reply.getOwners());
    o->map.version = reply.getMapVersion();
    moved = std::move(o);
    // What looks rows up need not wait until minibatches are done: the program may hold one meanwhile.
    if (config->on_owners) config->on_owners(moved);
    begin_next_pipeline();
  }

  // Works that wait with callers need not be waited for.
  void begin_next_pipeline() {
    if (!moved || asking || over || (in_pipeline > 0 && !config->parts.holds_works)) return;
    owners = std::exchange(moved, nullptr);
    end_empty_pipeline(last_pipeline);
    build_pipeline();
    feed();
  }

  void down(const caf::down_msg& down) {
    if (down.source == config->master.address()) return master_failed(down.reason);
    if (places.lose(down.source) && owners && owners->may_return) find_owners();
  }

  // Where owners keep their rows in servers, a worker reads them there, too. A reader need not reach servers.
  void connect_servers(Owners& to, const storage::ServerLogin& login) const {
    const auto& where = config->job.storage;
    if (!is_worker() || where.backend == "memory" || where.servers.empty() || !config->model.has_embeddings())
      return;
    DirectReaderConfig reader;
    reader.backend = where.backend;
    reader.servers = where.servers;
    reader.timeouts = storage::server_timeouts(where.server_timeout);
    reader.login = login;
    reader.rows = {config->job.job.name, config->run, static_cast<uint32_t>(to.handles.size())};
    reader.tables = to.tables;
    to.direct = spawn_direct_reader(self->system(), reader);
  }

  void start_work() {
    if (!is_worker()) return;
    reader = config->parts.read(self->system(), caf::actor_cast<StageActor>(self),
                                caf::actor_cast<StageOwner>(self));
    build_pipeline();
    request_lease();
    request_order();
  }

  void build_pipeline() {
    if (!is_worker()) return;
    const auto me = caf::actor_cast<StageOwner>(self);
    caf::actor_system& system = self->system();
    const auto& training = config->job.training;
    const StageActor push = spawn_pusher(system, owners, config->model, config->master, me);
    const StageActor train = config->parts.train(system, owners, push, me);
    const StageActor pull =
        spawn_puller(system, owners, config->model,
                     {config->get_model_steps, training.cache_rows, training.cache_staleness}, train, me);
    pipelines[++last_pipeline] = {{pull, train, push}};
  }

  void end_empty_pipeline(uint64_t number) {
    const auto at = pipelines.find(number);
    if (at == pipelines.end() || at->second.works > 0) return;
    at->second.end();
    pipelines.erase(at);
  }

  // --- leases ------------------------------------------------------------------------------------

  // Each minibatch holds one until its push is answered; those that the master has not heard of count, too,
  // as soon as they are as many as there are credits.
  uint32_t credits_held() const {
    const uint32_t all = 1 + config->job.training.prefetch;
    return std::max(unpushed, in_pipeline - std::min(in_pipeline, all));
  }

  // One minibatch more is read ahead than is pulled ahead, since what is read early is not stale; not in sync
  // mode, where others may be waiting for work, and not without prefetch.
  bool may_read() const {
    if (config->window > 0) return true;  // what was drawn, was asked for
    const auto& training = config->job.training;
    const bool more = training.prefetch > 0 && training.mode != job::Mode::kSync;
    return reading + ready.size() + credits_held() <= training.prefetch + (more ? 1 : 0);
  }

  void request_lease() {
    if (config->window > 0 && !draws) return;
    if (!is_worker() || lease_pending || all_leased || leaving || over || rests || moving() ||
        !queue.empty() || !may_read())
      return;
    lease_pending = true;
    draws = false;
    self->request(config->master, caf::infinite,
                  make_message<wire::LeaseRequest>([&](wire::LeaseRequest::Builder b) {
                    b.setIncarnation(incarnation);
                    b.setReceived(last_lease);
                  }))
        .then(
            [this](const Message<wire::LeaseReply>& m) {
              guarded(
                  Kind::kLeaseReply, [&] { leased(m); }, ends());
            },
            [this](caf::error& e) {
              if (!leaving) master_failed(e);
            });
  }

  void leased(const Message<wire::LeaseReply>& m) {
    lease_pending = false;
    if (leaving || over) return;
    const auto reply = m.get();
    if (reply.getKind() == wire::LeaseReply::Kind::END) return no_more_work();
    if (reply.getKind() == wire::LeaseReply::Kind::LATER) return later();
    last_lease = reply.getLease();
    for (const auto part : reply.getMinibatches()) {
      const WorkPtr work = config->parts.make_work();
      work->evaluate = reply.getKind() == wire::LeaseReply::Kind::EVALUATE;
      work->exact = !work->evaluate && config->job.training.mode == job::Mode::kSync;
      Origin& o = work->origin;
      o.job = config->run;
      o.incarnation = incarnation;
      o.epoch = reply.getEpoch();
      o.minibatch = part.getMinibatch();
      o.attempt = part.getAttempt();
      work->lease = reply.getLease();
      o.version = reply.getVersion();
      queue.push_back(work);
    }
    if (rests) return give_back_unread();
    feed();
  }

  void later() {
    if (config->on_later) config->on_later();
  }

  void begin(const WorkPtr& work) {
    if (over) return;
    self->request(config->master, caf::infinite,
                  make_message<wire::BeginRequest>([&](wire::BeginRequest::Builder b) {
                    b.setIncarnation(incarnation);
                    b.setLease(work->lease);
                    b.setMinibatch(work->origin.minibatch);
                    b.setAttempt(work->origin.attempt);
                  }))
        .then(
            [this, work](const Message<wire::BeginReply>& m) { config->on_begun(work, m.get().getBegun()); },
            [this](caf::error& e) {
              if (!leaving) master_failed(e);
            });
  }

  // What was never pulled needs no place in the pipeline.
  void give_back(const WorkPtr& work) { self->send(enter_pipeline(*work).stages.back(), work); }

  Pipeline& enter_pipeline(Work& work) {
    ++in_pipeline;
    ++unpushed;
    work.pipeline = last_pipeline;
    Pipeline& pipeline = pipelines.at(last_pipeline);
    ++pipeline.works;
    return pipeline;
  }

  void leave_pipeline(const Work& work) {
    --in_pipeline;
    --pipelines.at(work.pipeline).works;
    if (work.pipeline != last_pipeline) end_empty_pipeline(work.pipeline);
  }

  // The next pull need not wait until the master knows, too.
  void pushed() {
    --unpushed;
    feed();
  }

  void rest() {
    rests = true;
    give_back_unread();
  }

  void go_on() {
    rests = false;
    if (!pipelines.empty()) feed();
  }

  void give_back_unread() {
    if (over || pipelines.empty()) return;
    for (const WorkPtr& work : std::exchange(queue, {})) {
      work->refused = true;
      give_back(work);
    }
  }

  void feed() {
    if (moving()) return;
    while (!ready.empty() && credits_held() <= config->job.training.prefetch) {
      const WorkPtr work = ready.front();
      ready.pop_front();
      ++pulls;
      work->origin.map_version = owners->map.version;
      self->send(enter_pipeline(*work).stages.front(), work);
    }
    while (!queue.empty() && may_read()) {
      ++reading;
      self->send(reader, queue.front());
      queue.pop_front();
    }
    request_lease();
  }

  // A work comes back twice: once read, and once done.
  void returned(const WorkPtr& work) {
    if (std::exchange(work->is_read, false)) {
      --reading;
      work->refused ? give_back(work) : ready.push_back(work);
      drop_unpulled();
    } else {
      leave_pipeline(*work);
      if (work->owners_moved && work->pipeline == last_pipeline && !moved)
        find_owners();
      else if (!work->evaluate && !work->refused)
        ++pushes;
      if (!work->refused && config->on_finished) config->on_finished();
      if (config->on_over) config->on_over(work);
    }
    begin_next_pipeline();
    feed();
    if (is_idle() && leaving) say_goodbye();
  }

  // Who leaves does not wait for an owner that is away: the master leases again what was only read.
  void drop_unpulled() {
    if (leaving && moving()) ready.clear();
  }

  bool is_idle() const { return reading + ready.size() + in_pipeline == 0; }

  // --- orders ------------------------------------------------------------------------------------

  // One request is always at the master, which answers when there is something to do, or after a while.
  void request_order() {
    if (leaving || over) return;
    self->request(config->master, caf::infinite,
                  make_message<wire::OrderRequest>([&](wire::OrderRequest::Builder b) {
                    b.setIncarnation(incarnation);
                    b.setReceived(last_order);
                    b.setCarriedOut(last_order);
                  }))
        .then([this](const Message<wire::OrderReply>& m) { ordered(m.get()); },
              [this](caf::error& e) {
                // When the job has ended well, whoever still computes is told so in the end.
                if (!leaving && from_caf(e).code() != ErrorCode::kEnded) master_failed(e);
              });
  }

  void ordered(wire::OrderReply::Reader reply) {
    if (leaving || over) return;
    last_order = std::max(last_order, reply.getNumber());
    if (reply.getOrder() != wire::OrderReply::Order::DRAIN) return request_order();
    spdlog::info("{} wants fewer workers: finishing what is under way, then leaving", config->master_name);
    leave();
  }

  // --- life --------------------------------------------------------------------------------------

  void heartbeat() {
    if (over) return;
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
    self->request(config->master, wait,
                  make_message<wire::HeartbeatRequest>([&](wire::HeartbeatRequest::Builder b) {
                    b.setIncarnation(incarnation);
                    b.setPulls(pulls);
                    b.setPushes(pushes);
                  }))
        .then(
            [this](const Message<wire::HeartbeatReply>& m) {
              if (!(m.get().getInterval() > 0 && m.get().getTimeout() > 0))
                return end(Error(ErrorCode::kBadFrame, "the master gave no interval for heartbeats"));
              beat = std::chrono::duration<double>(m.get().getInterval());
              timeout = std::chrono::duration<double>(m.get().getTimeout());
              if (owners && m.get().getMapVersion() > newest().map.version) find_owners();
            },
            [this](caf::error& e) {
              if (!leaving) master_failed(e);
            });
    self->delayed_send(self, std::chrono::duration_cast<std::chrono::milliseconds>(beat), beat_atom::value);
  }

  // What a request to the master came back with, or its end. What the master says about a lost owner counts
  // more than what this session knows.
  void master_failed(const caf::error& reason) {
    if (reason == caf::sec::request_receiver_down) return;  // down() is told why
    const Error why = from_caf(reason);
    if (!gave_up && remedy(why.code()) != Remedy::kRetry) return end(why);
    const bool away = why.code() == ErrorCode::kTimeout;  // rather than gone
    const std::string lost = fmt::format(
        "lost {}: {}; {}", config->master_name, why.what(),
        away ? "join again once it answers"
             : "join again when the job goes on from its last checkpoint (embers master --resume)");
    // An owner that was lost with it may have been noticed first.
    const bool mine = failure && remedy(failure->code()) != Remedy::kRetry;
    const ErrorCode code = away ? why.code() : mine ? failure->code() : ErrorCode::kLost;
    end(Error(code, failure ? fmt::format("{}; {}", failure->what(), lost) : lost));
  }

  // A stage failed. If the fault is this process's, it ends the whole job. If an owner is gone, the master
  // knows better why.
  void stage_failed(const StageFailure& f) {
    if (over || failure) return;
    const Error error(f.code, f.message);
    if (f.code == ErrorCode::kFenced || f.code == ErrorCode::kJobFailed) return end(error);
    failure = error;
    if (remedy(f.code) == Remedy::kRetry) {
      self->delayed_send(self, kVerdict, quit_atom::value);
      return;
    }
    const auto gone = [this] { end(*failure); };
    self->request(config->master, kLeave, make_message<wire::FailRequest>([&](wire::FailRequest::Builder b) {
                    b.setIncarnation(incarnation);
                    b.setCode(static_cast<uint8_t>(f.code));
                    b.setMessage(f.message);
                  }))
        .then([gone](const Message<wire::Empty>&) { gone(); }, [gone](caf::error&) { gone(); });
  }

  // A program that brought the job's model may still look rows up. It leaves when it is told to.
  void no_more_work() {
    if (!config->job.from_worker) return leave();
    all_leased = true;
    if (config->on_last_lease) config->on_last_lease();
  }

  void leave() {
    if (leaving || over) return;
    leaving = true;
    queue.clear();
    if (config->on_last_lease && !all_leased) config->on_last_lease();
    drop_unpulled();
    if (is_idle()) say_goodbye();
  }

  void say_goodbye() { leave_master("", std::nullopt); }

  // An owner is gone, and the master has not said that the job ends: others may reach that owner.
  void leave_without_owner() {
    gave_up = true;
    leave_master(fmt::format("it reaches the master, but {}", failure->what()),
                 Error(ErrorCode::kLost, failure->what()));
  }

  void leave_master(const std::string& reason, const std::optional<Error>& error) {
    const auto gone = [this, error] { end(error); };
    self->request(config->master, kLeave,
                  make_message<wire::LeaveRequest>([&](wire::LeaveRequest::Builder b) {
                    b.setIncarnation(incarnation);
                    b.setReason(reason);
                  }))
        .then([gone](const Message<wire::Empty>&) { gone(); },
              [this, error](caf::error& e) {
                const Error why = from_caf(e);
                if (!error || remedy(why.code()) != Remedy::kRetry) return end(error);
                const bool away = why.code() == ErrorCode::kTimeout;
                end(Error(away ? why.code() : error->code(),
                          fmt::format("{}; {} is not reached any more: {}", error->what(),
                                      config->master_name, why.what())));
              });
  }

  void end(std::optional<Error> error) {
    if (std::exchange(over, true)) return;
    for (const auto& [number, pipeline] : pipelines) pipeline.end();
    if (reader) caf::anon_send_exit(reader, caf::exit_reason::user_shutdown);
    if (owners && owners->direct) caf::anon_send_exit(owners->direct, caf::exit_reason::user_shutdown);
    if (config->on_end) config->on_end(std::move(error));
    self->quit();
  }
};

SessionImpl::behavior_type session_behavior(SessionState::Self self,
                                            std::shared_ptr<const SessionConfig> config) {
  SessionState& state = self->state;
  self->set_down_handler([&state](caf::down_msg& down) { state.down(down); });
  state.start(self, std::move(config));
  return {
      [&state](leave_atom) { state.leave(); },
      [&state](look_atom, uint32_t map_version) { state.look_again(map_version); },
      [&state](end_atom) { state.end(std::nullopt); },
      [&state](draw_atom) {
        state.draws = true;
        state.request_lease();
      },
      [&state](give_back_atom) { state.rest(); },
      [&state](go_on_atom) { state.go_on(); },
      [&state](begin_work_atom, const WorkPtr& work) { state.begin(work); },
      [&state](pushed_atom) { state.pushed(); },
      [&state](const WorkPtr& work) { state.returned(work); },
      [&state](const StageFailure& f) { state.stage_failed(f); },
      [&state](beat_atom) { state.heartbeat(); },
      [&state](quit_atom) {
        if (state.failure && !state.over) state.leave_without_owner();
      },
  };
}

}  // namespace

SessionActor spawn_session(caf::actor_system& system, std::shared_ptr<const SessionConfig> config) {
  return caf::actor_cast<SessionActor>(system.spawn(session_behavior, std::move(config)));
}

}  // namespace embers
