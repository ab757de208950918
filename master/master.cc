// The master's actor: what arrives, as events.
#include "master/master.h"

#include <spdlog/spdlog.h>

#include "actors/errors.h"
#include "master/master_actor.h"
#include "master/messages.h"
#include "master/model_checks.h"

namespace embers {
namespace {

constexpr auto kMetricsAge = std::chrono::seconds(1);

}  // namespace

void MasterActorState::start(Self pointer, std::shared_ptr<const MasterConfig> c) {
  self = pointer;
  config = std::move(c);
  job.emplace(config, static_cast<uint32_t>(config->local_owners.size()), config->on_progress != nullptr,
              now());
  tick();
}

void MasterActorState::handle_events() {
  if (std::exchange(handling, true)) return;
  while (!events.empty()) {
    const Event event = std::move(events.front());
    events.pop_front();
    for (const Effect& effect : job->on(event))
      std::visit([this](const auto& e) { perform(e); }, effect.what);
  }
  handling = false;
  done = {};
  joining = {};
}

Message<wire::JobReply> MasterActorState::describe_job() const {
  if (job->error()) throw Error(ErrorCode::kJobFailed, job->error()->what());
  return job_reply(*config, job->wants_model());
}

std::shared_ptr<const ToldModel> MasterActorState::settled(const Message<wire::JoinRequest>& request) const {
  if (!config->job.model_from_worker() || !request.get().hasTold()) return nullptr;
  auto told = std::make_shared<ToldModel>(read(request.get().getTold()));
  const std::vector<std::string> chosen = settle_model(config->job, told->model, told->batch_size);
  for (const std::string& line : chosen)
    if (job->wants_model()) spdlog::info("{}", line);
  if (config->task == JobConfig::Task::kEvaluate) without_slots(told->model);
  read_values(request.get().getTold());
  return told;
}

Message<wire::StatusReply> MasterActorState::describe_status() {
  Status status = job->status(now());
  status.job = config->job.source.path;
  status.id = config->run;
  status.task = config->task == JobConfig::Task::kTrain ? "train"
                : config->predictions.empty()           ? "evaluate"
                                                        : "predict";
  status.loss = metrics().loss;
  status.auc = metrics().auc;
  return write(status);
}

const MasterActorState::Metrics& MasterActorState::metrics() {
  if (!latest_metrics.at || now() - *latest_metrics.at >= kMetricsAge)
    latest_metrics = {recent.loss(), recent.auc(), now()};
  return latest_metrics;
}

MasterActorState::Peer& MasterActorState::peer(const caf::actor_addr& address) {
  const auto [known, is_new] = peers.try_emplace(address, Peer{last_link + 1});
  if (is_new) {
    ++last_link;
    self->monitor(address);
  }
  return known->second;
}

void MasterActorState::heard(uint64_t incarnation, const caf::actor_addr& address) {
  if (incarnation == 0) return;
  // Mostly the same peer as the last time: then nothing else is looked at.
  LastHeard& last = last_heard[incarnation % last_heard.size()];
  const uint64_t by = HashAddress()(address);
  if (last.incarnation == incarnation && last.by == by && by != 0) return;
  last = {incarnation, by};
  Peer& from = peer(address);
  if (std::exchange(from.incarnation, incarnation) != incarnation)
    happened(Event::Reconnected{incarnation, from.link});
}

void MasterActorState::down(const caf::down_msg& down) {
  const Error reason = from_caf(down.reason);
  const std::string why = reason.what();
  if (const auto link = owner_links.extract(down.source)) {
    const auto [number, incarnation] = link.mapped();
    happened(Event::OwnerDown{number, incarnation, why});
  }
  if (const auto peer = peers.extract(down.source)) {
    last_heard[peer.mapped().incarnation % last_heard.size()] = {};
    happened(Event::LinkDown{peer.mapped().link, why, reason.code() != ErrorCode::kTimeout});
  }
}

void MasterActorState::tick() {
  const auto beat = std::chrono::duration<double>(job->beat());
  self->delayed_send(self, std::chrono::duration_cast<std::chrono::milliseconds>(beat), tick_atom::value);
  happened(Event::Tick{});
}

// --- the actor -----------------------------------------------------------------------------------

namespace {

// Serves a request of this kind; `prepare` completes the event.
template <class Request, class Prepare>
auto serves(MasterActorState::Self self, Prepare prepare) {
  using Answer = typename KindOf<Request>::Reply;
  return [self, prepare](const Message<Request>& m) -> caf::result<Message<Answer>> {
    const auto peer = caf::actor_cast<caf::actor_addr>(self->current_sender());  // before a promise takes it
    auto promise = self->template make_response_promise<Message<Answer>>();
    guarded(
        KindOf<Request>::kind,
        [&] {
          auto event = read(m.get());
          if constexpr (requires { event.incarnation; }) self->state.heard(event.incarnation, peer);
          prepare(event, m, peer);
          const bool answered = self->state.requested(promise, std::move(event));
          if (!answered && m.arrival()) m.arrival()->settle();
        },
        [&](const Error& e) { promise.deliver(to_caf(e)); });
    return promise;
  };
}

template <class Request>
auto serves(MasterActorState::Self self) {
  return serves<Request>(self, [](const auto&...) {});
}

MasterImpl::behavior_type master_behavior(MasterActorState::Self self,
                                          std::shared_ptr<const MasterConfig> config) {
  MasterActorState& state = self->state;
  self->set_down_handler([self](caf::down_msg& down) { self->state.down(down); });
  state.start(self, std::move(config));
  return {
      [&state](const Message<wire::JobRequest>&) {
        return guarded(Kind::kJobRequest, [&] { return state.describe_job(); });
      },
      serves<wire::JoinRequest>(self,
                                [&state](Event::Join& e, const auto& request, const auto& peer) {
                                  e.told = state.settled(request);
                                  e.link = state.peer(peer).link;
                                  state.joining = request;
                                }),
      serves<wire::LeaseRequest>(self),
      serves<wire::BeginRequest>(self),
      serves<wire::DoneRequest>(self,
                                [&state](const Event::Done& e, const auto& request, const auto&) {
                                  // A malformed request must not count as done.
                                  if (!e.returned) read_evaluated(request.get());
                                  state.done = request;
                                }),
      serves<wire::HeartbeatRequest>(self),
      serves<wire::OwnersRequest>(self),
      serves<wire::OrderRequest>(self),
      serves<wire::FailRequest>(self),
      serves<wire::LeaveRequest>(self),
      [&state](const Message<wire::StatusRequest>&) {
        return guarded(Kind::kStatusRequest, [&] { return state.describe_status(); });
      },
      serves<wire::ScaleRequest>(self),
      serves<wire::DrainRequest>(self),
      serves<wire::StopRequest>(self),
      serves<wire::CheckpointRequest>(self),
      [&state](stop_atom, const std::string& why) { state.happened(Event::Stop{why}); },
      [&state](tick_atom) { state.tick(); },
  };
}

}  // namespace

LocalMasterActor spawn_master(caf::actor_system& system, std::shared_ptr<const MasterConfig> config) {
  return caf::actor_cast<LocalMasterActor>(system.spawn(master_behavior, std::move(config)));
}

}  // namespace embers
