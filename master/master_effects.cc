// The master's actor: what is done about events.
#include "actors/errors.h"
#include "actors/spawn.h"
#include "base/files/directory_lock.h"
#include "master/master_actor.h"
#include "master/messages.h"
#include "master/snapshot.h"
#include "storage/checkpoint/checkpoint_paths.h"

namespace embers {
namespace {

constexpr auto kDropSeconds = std::chrono::seconds(3);  // for an evaluator to remove its files

}  // namespace

// --- answers, people -------------------------------------------------------------------------------

void MasterActorState::perform(const Effect::Answer& e) {
  const auto promise = promises.extract(e.ticket);
  if (!promise) return;
  std::visit(
      [&](const auto& reply) {
        const auto message = [&] {
          if constexpr (std::is_same_v<std::decay_t<decltype(reply)>, Reply::Join>)
            return join_replies.write(reply, *config);
          else
            return write(reply, *config);
        }();
        using Wanted = caf::typed_response_promise<std::decay_t<decltype(message)>>;
        std::get<Wanted>(promise.mapped()).deliver(message);
      },
      e.reply);
}

void MasterActorState::perform(const Effect::Refuse& e) {
  const auto promise = promises.extract(e.ticket);
  if (!promise) return;
  std::visit([&](auto& p) { p.deliver(to_caf(e.error)); }, promise.mapped());
}

void MasterActorState::perform(const Effect::Say& e) {
  if (config->on_event) config->on_event(e.line);
}

void MasterActorState::perform(const Effect::ShowProgress& e) {
  Progress progress = e.progress;
  progress.loss = metrics().loss;
  progress.auc = metrics().auc;
  config->on_progress(progress);
}

void MasterActorState::perform(const Effect::Entered& e) {
  if (e.phase == Phase::kEvaluating) begin_evaluation();
  if (e.phase == Phase::kOver) end();
}

// First values of parameters are of no interest to JobState.
void MasterActorState::perform(const Effect::Adopt& e) {
  auto next = std::make_shared<MasterConfig>(*config);
  static_cast<JobConfig&>(*next) = *e.config;
  const FirstValues given = read_values(joining.get().getTold());
  const auto values = [&](std::span<const float> floats, bool buffer) {
    auto all = std::make_shared<FloatBuffer>(dense_chunks(next->model, buffer).size() * kDenseChunk);
    if (floats.empty())
      std::fill(all->span().begin(), all->span().end(), 0.0f);
    else
      std::copy(floats.begin(), floats.end(), all->data());
    return all;
  };
  next->dense = values(given.dense, false);
  next->buffers = values(given.buffers, true);
  config = next;
}

// --- owners ----------------------------------------------------------------------------------------

const OwnerHandles* MasterActorState::owner(uint32_t number, uint64_t incarnation) const {
  if (incarnation == 0) return &config->local_owners.at(number);
  const auto found = owners.find(incarnation);
  return found == owners.end() ? nullptr : &found->second;
}

void MasterActorState::perform(const Effect::Connect& e) {
  try {
    const OwnerHandles handles = config->connect_owner(e.who, e.endpoints, e.boot_id, e.incarnation);
    for (const caf::actor_addr& link : {handles.optimizer.address(), handles.shard.address()}) {
      owner_links[link] = {e.number, e.incarnation};
      self->monitor(link);
    }
    owners.emplace(e.incarnation, handles);
    holders[e.number] = e.incarnation;
    happened(Event::Connected{e.incarnation});
  } catch (const Error& why) {
    happened(Event::NotConnected{e.incarnation, why});
  }
}

void MasterActorState::perform(const Effect::Drop& e) {
  const auto dropped = owners.extract(e.incarnation);
  if (!dropped) return;
  std::erase_if(owner_links, [&](const auto& link) { return link.second.incarnation == e.incarnation; });
  std::erase_if(holders, [&](const auto& holder) { return holder.second == e.incarnation; });
  if (config->drop_owner) config->drop_owner(dropped.mapped());
}

template <class T>
void MasterActorState::ask(const Effect::Ask& e, const OptimizerActor& whom, const Message<T>& question) {
  using Answer = typename KindOf<T>::Reply;
  const auto failed = [this, number = e.number, incarnation = e.incarnation, id = e.id](const Error& why) {
    happened(Event::OwnerFailed{number, incarnation, id, why});
  };
  self->request(whom, caf::infinite, question)
      .then(
          [this, number = e.number, incarnation = e.incarnation, id = e.id,
           failed](const Message<Answer>& reply) {
            guarded(
                KindOf<Answer>::kind,
                [&] {
                  happened(Event::OwnerAnswered{number, incarnation, id, read_answer(reply.get())});
                },
                failed);
          },
          [failed](caf::error& error) { failed(from_caf(error)); });
}

void MasterActorState::perform(const Effect::Ask& e) {
  const OwnerHandles* const whom = owner(e.number, e.incarnation);
  if (whom == nullptr)
    return happened(Event::OwnerFailed{e.number, e.incarnation, e.id,
                                       Error(ErrorCode::kUnavailable, "the connection has ended")});
  std::visit([&](const auto& question) { ask(e, whom->optimizer, write(question)); }, e.question);
}

void MasterActorState::perform(const Effect::Tell& e) {
  const OwnerHandles* const whom = owner(e.number, e.incarnation);
  if (whom == nullptr) return happened(Event::OwnerTold{});
  self->request(whom->optimizer, e.timeout, make_message<wire::EndRequest>([&](wire::EndRequest::Builder b) {
                  b.setOk(e.ok);
                  b.setMessage(e.message);
                }))
      .then([this](const Message<wire::Empty>&) { happened(Event::OwnerTold{}); },
            [this](caf::error&) { happened(Event::OwnerTold{}); });
}

// --- work in the background ------------------------------------------------------------------------

template <class Failed>
void MasterActorState::background(std::function<void(caf::blocking_actor*)> work,
                                  std::function<void()> then) {
  self->request(spawn_work(self->home_system(), std::move(work)), caf::infinite, begin_atom::value)
      .then([then = std::move(then)] { then(); }, [this](caf::error& e) { happened(Failed{from_caf(e)}); });
}

SnapshotContext MasterActorState::snapshot_context() const {
  SnapshotContext context{{}, job->map(), config->model, config->disk};
  context.owners = config->local_owners;
  for (const auto& [number, incarnation] : holders) context.owners.push_back(owners.at(incarnation));
  return context;
}

void MasterActorState::perform(const Effect::Prepare& e) {
  auto at = std::make_shared<Cursor>();
  background(
      [at, here = e.here, context = snapshot_context(), c = config](caf::blocking_actor* b) {
        if (!c->resume.empty())
          *at = load_checkpoint(b, context, c->resume, c->task == JobConfig::Task::kTrain);
        if (c->resume.empty()) init_dense(b, context, *c->dense, *c->buffers);
        if (c->task == JobConfig::Task::kTrain) check_same_epoch(*at, here, c->resume);
        resume_owners(b, context, *at);
      },
      [this, at] { happened(Event::Prepared{*at}); });
}

void MasterActorState::perform(const Effect::Save& e) {
  if (!e.checkpoint && !e.rows) return happened(Event::Saved{});
  background(
      [save = e.checkpoint, rows = e.rows, at = e.at, context = snapshot_context(),
       c = config](caf::blocking_actor* b) {
        if (save) save_checkpoint(b, context, c->output, c->job.job.name, at);
        if (rows) dump_rows(b, context, c->dump_rows);
      },
      [this, checkpoint = e.checkpoint] { happened(Event::Saved{checkpoint}); });
}

// Other jobs may write to the directory; this one has locked its own output already.
void MasterActorState::perform(const Effect::Checkpoint& e) {
  background<Event::CheckpointFailed>(
      [to = e.directory, at = e.at, context = snapshot_context(), c = config](caf::blocking_actor* b) {
        const bool is_output = !c->output.empty() && storage::checkpoint_paths(c->output).directory ==
                                                         storage::checkpoint_paths(to).directory;
        const auto lock = is_output ? nullptr : DirectoryLock::take(to);
        save_checkpoint(b, context, to, c->job.job.name, at);
      },
      [this] { happened(Event::CheckpointSaved{}); });
}

// --- scores ----------------------------------------------------------------------------------------

void MasterActorState::begin_evaluation() {
  if (!evaluator) {
    evaluator = config->spawn_evaluator(self->home_system());
    self->attach_functor([e = evaluator] { caf::anon_send_exit(e, caf::exit_reason::user_shutdown); });
  }
  const bool predicts = config->task == JobConfig::Task::kEvaluate;
  self->request(evaluator, caf::infinite, begin_evaluation_atom::value,
                predicts ? config->predictions : std::string())
      .then([] {}, evaluation_failed());
}

std::function<void(caf::error&)> MasterActorState::evaluation_failed() {
  return [this](caf::error& e) { happened(Event::EvaluationFailed{from_caf(e)}); };
}

void MasterActorState::perform(const Effect::CountTrained&) { recent.add(read_evaluated(done.get())); }

void MasterActorState::perform(const Effect::CountEvaluated&) {
  self->request(evaluator, caf::infinite, done)
      .then([this](uint64_t counted) { happened(Event::Counted{counted}); }, evaluation_failed());
}

void MasterActorState::perform(const Effect::Score&) {
  self->request(evaluator, caf::infinite, metrics_atom::value)
      .then(
          [this](const Evaluation::Metrics& m) {
            happened(Event::Scored{m.loss, m.auc, m.accuracy, m.examples});
            if (!config->predictions.empty()) perform(Effect::Say{"scores saved to " + config->predictions});
          },
          evaluation_failed());
}

// --- the end ---------------------------------------------------------------------------------------

// Once an evaluation that was cut short has removed its files.
void MasterActorState::end() {
  if (!evaluator) return report_end();
  const auto dropped = [this] { report_end(); };
  self->request(evaluator, kDropSeconds, drop_atom::value).then(dropped, [dropped](caf::error&) {
    dropped();
  });
}

void MasterActorState::report_end() {
  if (config->on_end) config->on_end({job->error(), job->report()});
  self->quit();
}

}  // namespace embers
