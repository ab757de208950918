#pragma once

#include <deque>
#include <map>
#include <unordered_map>
#include <variant>

#include "master/master.h"
#include "master/messages.h"
#include "master/snapshot.h"
#include "master/state/job_state.h"

namespace embers {

using tick_atom = caf::atom_constant<caf::atom("tick")>;
using MasterImpl = LocalMasterActor::extend<caf::reacts_to<tick_atom>>;

// The actor around JobState: messages, lost connections and ticks become events, effects become messages and
// answers. It decides nothing. Used only within its actor.
struct MasterActorState {
  using Self = MasterImpl::stateful_pointer<MasterActorState>;
  template <class Reply>
  using Promise = caf::typed_response_promise<Message<Reply>>;

  static inline const char* name = "master";

  void start(Self self, std::shared_ptr<const MasterConfig> config);
  // Takes what happened, and does what is to be done about it. What happens while it does that comes after.
  template <class E>
  void happened(E event) {
    events.push_back({now(), std::move(event)});
    handle_events();
  }
  // A request: its answer goes to the promise. Returns whether it was answered.
  template <class Reply, class E>
  bool requested(Promise<Reply> promise, E event) {
    const Ticket ticket = event.ticket = ++last_ticket;
    promises.emplace(ticket, std::move(promise));
    happened(std::move(event));
    return !promises.contains(ticket);
  }
  Message<wire::JobReply> describe_job() const;
  Message<wire::StatusReply> describe_status();
  // A peer's connection, watched.
  struct Peer {
    uint64_t link = 0;
    uint64_t incarnation = 0;  // of the member that asked something over it last
  };
  Peer& peer(const caf::actor_addr& address);
  // A member asks something over a peer's connection.
  void heard(uint64_t incarnation, const caf::actor_addr& address);
  void down(const caf::down_msg& down);
  void tick();

  // Of the Event::Done at hand: holds scores, which JobState does not look at.
  Message<wire::DoneRequest> done;
  // Of the Event::Join at hand: holds first values of parameters.
  Message<wire::JoinRequest> joining;

  // What the worker of a join tells, as this job has it; null if it tells nothing.
  std::shared_ptr<const ToldModel> settled(const Message<wire::JoinRequest>& request) const;

 private:
  // A proxy of an owner, by which it may be lost.
  struct OwnerLink {
    uint32_t number;
    uint64_t incarnation;
  };

  Time now() const { return self->home_system().clock().now(); }
  void handle_events();

  void perform(const Effect::Answer& e);
  void perform(const Effect::Refuse& e);
  void perform(const Effect::Say& e);
  void perform(const Effect::ShowProgress& e);
  void perform(const Effect::Entered& e);
  void perform(const Effect::Adopt& e);
  void perform(const Effect::Connect& e);
  void perform(const Effect::Drop& e);
  void perform(const Effect::Ask& e);
  void perform(const Effect::Tell& e);
  void perform(const Effect::Prepare& e);
  void perform(const Effect::CountTrained& e);
  void perform(const Effect::CountEvaluated& e);
  void perform(const Effect::Score& e);
  void perform(const Effect::Save& e);
  void perform(const Effect::Checkpoint& e);

  const OwnerHandles* owner(uint32_t number, uint64_t incarnation) const;
  template <class T>
  void ask(const Effect::Ask& e, const OptimizerActor& whom, const Message<T>& question);
  // Runs `work` in an actor of its own, then `then` here; an error becomes Failed{error}.
  template <class Failed = Event::WorkFailed>
  void background(std::function<void(caf::blocking_actor*)> work, std::function<void()> then);
  void begin_evaluation();
  // For answers of the evaluator: an error becomes Event::EvaluationFailed.
  std::function<void(caf::error&)> evaluation_failed();
  SnapshotContext snapshot_context() const;
  void end();
  void report_end();

  Self self = nullptr;
  std::shared_ptr<const MasterConfig> config;
  std::optional<JobState> job;
  std::deque<Event> events;  // not handled yet
  bool handling = false;

  Ticket last_ticket = 0;
  std::unordered_map<
      Ticket,
      std::variant<Promise<wire::JoinReply>, Promise<wire::LeaseReply>, Promise<wire::BeginReply>,
                   Promise<wire::DoneReply>, Promise<wire::HeartbeatReply>, Promise<wire::OwnersReply>,
                   Promise<wire::OrderReply>, Promise<wire::CheckpointReply>, Promise<wire::Empty>>>
      promises;  // of requests that are not answered yet
  uint64_t last_link = 0;
  struct HashAddress {  // CAF's own cannot take the address of nobody
    size_t operator()(const caf::actor_addr& address) const { return address ? address.id() : 0; }
  };
  std::unordered_map<caf::actor_addr, Peer, HashAddress> peers;
  struct LastHeard {
    uint64_t incarnation = 0, by = 0;  // by: the peer's actor id
  };
  std::vector<LastHeard> last_heard =
      std::vector<LastHeard>(4096);                  // by incarnation, of some; small and near
  std::map<caf::actor_addr, OwnerLink> owner_links;  // proxies
  std::map<uint64_t, OwnerHandles> owners;           // of other processes, by incarnation
  std::map<uint32_t, uint64_t> holders;              // of owner numbers: the latest incarnation

  JoinReplies join_replies;
  EvaluatorActor evaluator;  // once an evaluation has begun
  RecentWindow recent;       // of training
  // Of that window: computed once a second at most, however often they are asked for.
  struct Metrics {
    double loss = Status::kNone, auc = Status::kNone;
    std::optional<Time> at = {};
  };
  const Metrics& metrics();
  Metrics latest_metrics;
};

}  // namespace embers
