// What the master asks of all owners, and work in the background.
#include <algorithm>

#include "master/master_state.h"

namespace embers {
namespace {

using begin_atom = caf::atom_constant<caf::atom("begin")>;

OwnerStats add_up(const std::vector<Message<wire::StatsReply>>& replies) {
  OwnerStats sum;
  for (const auto& m : replies) {
    const auto s = m.get();
    sum.examples = std::max(sum.examples, s.getExamples());
    sum.minibatches = std::max(sum.minibatches, s.getMinibatches());
    sum.version = std::max(sum.version, s.getVersion());
    sum.staleness.merge(read_staleness(s));
    sum.duplicates += s.getDuplicates();
    sum.bad_gradients += s.getBadGradients();
    sum.rows += s.getRows();
    sum.resident_bytes += s.getResidentBytes();
  }
  return sum;
}

// An actor that runs `work` when told to begin, reports how it went, and ends.
void run_once(caf::blocking_actor* self, const std::function<void(caf::blocking_actor*)>& work) {
  self->receive([&](begin_atom) -> caf::result<void> {
    try {
      work(self);
      return caf::unit;
    } catch (const Error& e) {
      return to_caf(e);
    } catch (const std::exception& e) {
      return to_caf(Error(ErrorCode::kInternal, e.what()));
    }
  });
}

}  // namespace

void MasterState::background(std::function<void(caf::blocking_actor*)> work, std::function<void()> then) {
  const auto helper = self->spawn<caf::detached>(run_once, std::move(work));
  self->request(helper, caf::infinite, begin_atom::value)
      .then(
          [this, then = std::move(then)] {
            if (!over_or_failed()) then();
          },
          [this](caf::error& e) {
            // An interrupted save begins again once all owners are there.
            if (phase == Phase::kSaving && keeps_journal(*config) && is_gone(from_caf(e)))
              save_again = true;
            else
              fail_job(from_caf(e));
          });
}

template <class T>
void MasterState::ask_owner(uint32_t number, const Message<T>& question,
                            std::function<void(const Message<typename KindOf<T>::Reply>&)> then) {
  const uint64_t id = ++last_question;
  const auto ask = [this, number, id, question, then] {
    const auto owner = owners.find(number);
    if (owner == owners.end()) return;
    const OptimizerActor whom = owner->second.optimizer;
    self->request(whom, caf::infinite, question)
        .then(
            [this, number, id, then](const Message<typename KindOf<T>::Reply>& reply) {
              if (questions[number].erase(id) > 0) then(reply);
            },
            [this, number, whom](caf::error& e) {
              const auto now = owners.find(number);
              if (now == owners.end() || now->second.optimizer != whom)
                return;  // it was or will be asked again
              const Error why = from_caf(e);
              is_gone(why) ? lose_owner(number, why.what()) : fail_job(why);
            });
  };
  questions[number].emplace(id, ask);
  ask();
}

template <class T>
void MasterState::ask_owners(
    const Message<T>& question,
    std::function<void(const std::vector<Message<typename KindOf<T>::Reply>>&)> then) {
  using Reply = Message<typename KindOf<T>::Reply>;
  std::vector<uint32_t> numbers;
  for (const auto& [number, owner] : owners) numbers.push_back(number);
  for (const auto& [number, owner] : away) numbers.push_back(number);
  auto answers = std::make_shared<std::vector<Reply>>(numbers.size());
  auto open = std::make_shared<size_t>(numbers.size());
  if (numbers.empty()) return then(*answers);
  for (const uint32_t number : numbers)
    ask_owner<T>(number, question, [this, answers, open, then, number](const Reply& reply) {
      (*answers)[number] = reply;
      if (--*open == 0 && !over_or_failed()) then(*answers);
    });
}
template void MasterState::ask_owners<wire::FenceRequest>(
    const Message<wire::FenceRequest>&, std::function<void(const std::vector<Message<wire::Empty>>&)>);
template void MasterState::ask_owners<wire::MapRequest>(
    const Message<wire::MapRequest>&, std::function<void(const std::vector<Message<wire::Empty>>&)>);
template void MasterState::ask_owners<wire::NormsRequest>(
    const Message<wire::NormsRequest>&, std::function<void(const std::vector<Message<wire::NormsReply>>&)>);
template void MasterState::ask_owners<wire::CommitRequest>(
    const Message<wire::CommitRequest>&, std::function<void(const std::vector<Message<wire::CommitReply>>&)>);
template void MasterState::ask_owners<wire::StatsRequest>(
    const Message<wire::StatsRequest>&, std::function<void(const std::vector<Message<wire::StatsReply>>&)>);

void MasterState::with_stats(std::function<void(const OwnerStats&)> then) {
  ask_owners<wire::StatsRequest>(make_message<wire::StatsRequest>(), [this, then](const auto& replies) {
    stats = add_up(replies);
    then(stats);
  });
}

// The owners' sums without minibatches that only some of them applied. Those are noted in `partial`, to be
// finished after a resume; minibatches that all applied are done.
OwnerStats MasterState::settle(const std::vector<Message<wire::StatsReply>>& replies) {
  std::map<uint64_t, Partial> found;
  for (uint32_t owner = 0; owner < replies.size(); ++owner)
    for (const auto a : replies[owner].get().getApplied()) {
      found[a.getMinibatch()].minibatch = a.getMinibatch();
      found[a.getMinibatch()].owners.push_back(owner);
    }
  const auto by_all = [&](uint64_t minibatch) { return found.at(minibatch).owners.size() == replies.size(); };
  OwnerStats sum = add_up(replies);
  sum.examples = sum.minibatches = 0;
  for (const auto& m : replies) {
    uint64_t examples = m.get().getExamples(), minibatches = m.get().getMinibatches();
    for (const auto a : m.get().getApplied())
      if (!by_all(a.getMinibatch())) {
        examples -= a.getExamples();
        minibatches -= a.getExamples() > 0;  // 0: of an earlier run, not counted here
      }
    sum.examples = std::max(sum.examples, examples);
    sum.minibatches = std::max(sum.minibatches, minibatches);
  }
  partial.clear();
  for (const auto& [minibatch, p] : found)
    if (by_all(minibatch))
      train_book.mark_done(minibatch);
    else
      partial.push_back(p);
  return sum;
}

SnapshotContext MasterState::snapshot_context() const {
  SnapshotContext context{
      {}, even_owner_map(config->shards, config->job.storage.buckets, map_version), config->model};
  for (const auto& [number, owner] : owners) context.owners.push_back(owner);
  return context;
}

}  // namespace embers
