// The judge of the world: what it sees, and what must be so.
#include <algorithm>

#include "tests/master/effect_texts.h"
#include "tests/master/job_world.h"

namespace embers::job_state_testing {

void World::settle_ticket(Ticket t) {
  EXPECT_EQ(tickets_.erase(t), 1) << "answered twice, or never asked" << where();
  for (Peer& p : peers_) {
    if (p.lease == t) p.lease = 0;
    if (p.orders == t) p.orders = 0;
    if (p.begin == t) p.begin = 0;
  }
}

void World::see(const Effect::Answer& e) {
  if (const auto* order = std::get_if<Order>(&e.reply))
    for (Peer& p : peers_)
      if (p.orders == e.ticket && !p.away && order->number > 0) {  // else it was lost on its way
        EXPECT_EQ(order->number, p.order + 1) << where();
        EXPECT_EQ(order->what, Order::What::kDrain) << where();
        EXPECT_TRUE(is_draining(p.incarnation)) << where();
        p.order = order->number;
        p.drains = true;
        seen.insert("was told to drain");
      }
  if (const auto* begun = std::get_if<Reply::Begin>(&e.reply))
    for (Peer& p : peers_)
      if (p.begin == e.ticket && !p.away)
        for (Grant& g : p.grants)
          if (g.lease == p.beginning) {
            g.begun = begun->begun;
            seen.insert(begun->begun ? "begun" : "told to give back");
            EXPECT_FALSE(begun->begun && phase_ == Phase::kCheckpointing) << where();
            if (begun->begun && !g.evaluation && sync()) {
              const uint64_t last = commits_.empty() ? options_.begin.version : commits_.rbegin()->first;
              EXPECT_TRUE(g.version == last || g.version + 1 == last) << "begun too early" << where();
            }
          }
  settle_ticket(e.ticket);
  if (const auto* joined = std::get_if<Reply::Join>(&e.reply)) {
    if (owner_tickets_.erase(e.ticket) > 0) {
      owners_.at(joined->number).map = joined->map_version;
      return;
    }
    for (Peer& p : peers_)
      if (p.join == e.ticket) {
        if (!p.away) p.join = 0;
        p.incarnation = joined->incarnation;
      }
  } else if (const auto* leased = std::get_if<Reply::Lease>(&e.reply)) {
    if (leased->kind == Reply::Lease::Kind::kLater) {
      seen.insert("nothing more now");
      EXPECT_TRUE(std::ranges::any_of(peers_,
                                      [&](const Peer& p) {
                                        return p.joined.window > 0 &&
                                               p.incarnation == lease_tickets_.at(e.ticket) &&
                                               (!p.grants.empty() || p.unheard);
                                      }))
          << "told to finish what it does not hold" << where();
    } else {
      grant(lease_tickets_.at(e.ticket), *leased);
    }
    lease_tickets_.erase(e.ticket);
  } else if (const auto* checkpoint = std::get_if<Reply::Checkpoint>(&e.reply)) {
    if (checkpoint->saved) seen.insert("was told that it is saved");
  } else if (const auto* done = std::get_if<Reply::Done>(&e.reply)) {
    EXPECT_EQ(e.ticket, done_) << where();
    if (expected_accepted_) {
      EXPECT_EQ(done->accepted, *expected_accepted_) << where();
    }
  }
}

void World::see(const Effect::Refuse& e) {
  settle_ticket(e.ticket);
  last_refused_ = e.ticket;
  owner_tickets_.erase(e.ticket);
  lease_tickets_.erase(e.ticket);
  for (Peer& p : peers_)
    if (p.join == e.ticket) p.gone = true;
}

void World::grant(uint64_t worker, const Reply::Lease& lease) {
  if (lease.kind == Reply::Lease::Kind::kEnd) {
    EXPECT_TRUE(phase_ >= Phase::kEnding || is_draining(worker)) << "sent away in the middle" << where();
    for (Peer& p : peers_)
      if (p.incarnation == worker && !p.away && phase_ < Phase::kEnding) p.drains = true;
    return;
  }
  EXPECT_FALSE(is_draining(worker)) << "a worker that is to leave was given work" << where();
  const bool evaluation = lease.kind == Reply::Lease::Kind::kEvaluate;
  Book& book = evaluation ? eval_ : train_;
  all_owners_are_there();
  for (const auto& part : lease.lease.parts) {
    const uint64_t m = part.minibatch;
    if (evaluation && config_.job.training.batch_size == kHugeBatch) {
      EXPECT_LT(m, first_not_summed_up_ + 2 * kMostWorkers) << "too many are under way" << where();
      if (m >= 4) seen.insert("evaluated on");
    }
    EXPECT_FALSE(book.done.contains(m)) << "minibatch " << m << " is done, but was leased again" << where();
    if (const auto held = book.held.find(m); held != book.held.end()) {
      if (state_.members().find(held->second.worker) != nullptr) {
        EXPECT_TRUE(is_late(held->second.worker) || is_away(held->second.worker))
            << "minibatch " << m << " has two holders" << where();
        seen.insert("leased to another one, too");
      } else {  // only once no owner takes anything from a lost worker any more, unless it was late before
        for (const Owner& o : owners_)
          EXPECT_TRUE(o.fenced.contains(held->second.worker) || is_late(held->second.worker) ||
                      late_when_lost_.contains(held->second.worker))
              << "minibatch " << m << " was leased again before its worker was fenced" << where();
        seen.insert("leased again");
      }
      book.late.insert({m, held->second.lease});
      book.held.erase(held);
    }
    EXPECT_TRUE(book.attempts.insert({m, part.attempt}).second) << "an attempt was granted twice" << where();
    if (!evaluation) {
      for (uint64_t before = 0; before < m; ++before)
        if (!train_.attempts.contains({before, 1})) passed_over_.insert(before);
      passed_over_.erase(m);
    }
    book.again.erase(m);
    book.held[m] = {worker, lease.lease.id};
    book.workers[lease.lease.id] = worker;
    for (Peer& p : peers_)
      if (p.incarnation == worker && p.joined.window == 0) {
        EXPECT_NE(phase_, Phase::kCheckpointing) << "work has begun in a checkpoint" << where();
      }
    for (Peer& p : peers_)
      if (p.incarnation == worker && p.away) {
        p.unheard = true;
      } else if (p.incarnation == worker && !p.gone) {
        p.received = lease.lease.id;
        if (p.grants.empty()) p.since = now_;
        p.grants.push_back({evaluation, lease.epoch, lease.version, lease.lease.id, m, part.attempt, {}});
      }
  }
}

bool World::is_draining(uint64_t worker) const {
  const Member* const member = state_.members().find(worker);
  return member != nullptr && member->draining;
}

bool World::is_away(uint64_t worker) const {
  return std::ranges::any_of(
      peers_, [&](const Peer& p) { return p.incarnation == worker && (p.noticed || p.unheard); });
}

bool World::is_late(uint64_t worker) const {
  const double setting = config_.job.job.lease_timeout;
  const LeaseDeadlines::Duration least =
      setting > 0 ? LeaseDeadlines::Duration(setting) : LeaseDeadlines::kLeast;
  return std::ranges::any_of(peers_, [&](const Peer& p) {
    return p.incarnation == worker && !p.grants.empty() && now_ - p.since > least;
  });
}

void World::all_owners_are_there() {
  for (const Owner& o : owners_) {
    EXPECT_TRUE(o.incarnation != 0 || state_.members().find(o.died_as) != nullptr)
        << "an owner is away" << where();
    EXPECT_EQ(o.map, state_.map().version) << "an owner does not know the map" << where();
  }
}

void World::see(const Effect::Say& e) {
  EXPECT_EQ(e.line.find(kOtherNumbers), std::string::npos) << "a refused worker: " << e.line << where();
  if (e.line.starts_with("refused shard")) seen.insert("an owner was not reached");
}

void World::see(const Effect::Entered& e) {
  using enum Phase;
  static const std::set<std::pair<Phase, Phase>> arrows{
      {kGathering, kPreparing},    {kGathering, kEnding},    {kPreparing, kTraining},
      {kPreparing, kEvaluating},   {kPreparing, kSaving},    {kTraining, kSettling},
      {kSettling, kEvaluating},    {kSettling, kSaving},     {kEvaluating, kScoring},
      {kEvaluating, kSaving},      {kScoring, kSaving},      {kSaving, kTraining},
      {kSaving, kEnding},          {kEnding, kClosing},      {kClosing, kOver},
      {kGathering, kFailed},       {kPreparing, kFailed},    {kTraining, kFailed},
      {kSettling, kFailed},        {kEvaluating, kFailed},   {kScoring, kFailed},
      {kSaving, kFailed},          {kFailed, kOver},         {kTraining, kCheckpointing},
      {kCheckpointing, kTraining}, {kCheckpointing, kFailed}};
  EXPECT_TRUE(arrows.contains({phase_, e.phase})) << name(phase_) << " to " << name(e.phase) << where();
  seen.insert(name(e.phase));
  const Phase from = std::exchange(phase_, e.phase);
  if (e.phase == kFailed) writing_ = std::nullopt;
  if (from == kCheckpointing) return;
  if (e.phase == kTraining) {
    train_ = {};
    ++epoch_;
    versions_.clear();
    passed_over_.clear();
  }
  if (e.phase == kEvaluating) {
    eval_ = {};
    evaluated_.clear();
    to_count_.clear();
    summed_up_.clear();
    first_not_summed_up_ = 0;
  }
  if (e.phase == kSettling) end_epoch();
}

void World::end_epoch() {
  if (stopped()) return;
  for (uint64_t m = 0; m < config_.train_minibatches; ++m) {
    EXPECT_NE(train_.done.contains(m), done_before(m)) << "minibatch " << m << " was dropped" << where();
    if (sync() && !done_before(m)) {
      EXPECT_EQ(versions_.count(m), 1) << "minibatch " << m << " is in no version" << where();
    }
  }
}

void World::see(const Effect::Connect& e) {
  connects_.push_back(e);
  Owner& o = owners_.at(e.number);
  EXPECT_TRUE(o.incarnation == 0 || state_.members().find(o.incarnation) == nullptr)
      << "the place was not free" << where();
  o.incarnation = e.incarnation;
  o.join = owner_joins_.at(e.endpoints.at(0));
  o.link = o.join.link;
  o.away = false;
}

void World::see(const Effect::Drop& e) {
  for (Owner& o : owners_)
    if (o.incarnation == e.incarnation) o.incarnation = 0;
}

void World::see(const Effect::Ask& e) {
  asks_.push_back(e);
  const auto* commit = std::get_if<Commit>(&e.question);
  if (commit == nullptr) return;
  const auto [known, is_new] = commits_.emplace(commit->version, text(*commit));
  EXPECT_EQ(known->second, text(*commit)) << "two commits make one version" << where();
  if (!is_new) return;
  for (const auto& part : commit->parts) {
    EXPECT_TRUE(versions_.emplace(part.minibatch, commit->version).second)
        << "minibatch " << part.minibatch << " is in two versions" << where();
    const auto done = train_.done.find(part.minibatch);
    EXPECT_TRUE(done != train_.done.end() && done->second == part.attempt)
        << "minibatch " << part.minibatch << " was not accepted" << where();
  }
}

void World::see(const Effect::CountEvaluated& e) {
  ++counted_;
  EXPECT_TRUE(evaluated_.insert(e.minibatch).second) << "scored twice" << where();
  to_count_.push_back(e.minibatch);
}

void World::see(const Effect::Score& e) {
  EXPECT_EQ(evaluated_.size(), config_.test_minibatches) << "scored before the end" << where();
  work_ = e;
}

void World::see(const Effect::Save& e) {
  all_owners_are_there();
  EXPECT_FALSE(saves_nothing_ && (e.checkpoint || e.rows)) << "saved, though told not to" << where();
  EXPECT_FALSE(writing_) << "two checkpoints are written at once" << where();
  work_ = e;
  check_cursor(e.at);
}

void World::see(const Effect::Checkpoint& e) {
  all_owners_are_there();
  EXPECT_FALSE(writing_) << where();
  EXPECT_TRUE(phase_ == Phase::kCheckpointing || phase_ == Phase::kEvaluating || phase_ == Phase::kScoring)
      << where();
  EXPECT_EQ(e.directory, "there");
  writing_ = e;
  check_cursor(e.at);
}

void World::check_cursor(const Cursor& at) {
  if (epoch_ == 0 && config_.task == JobConfig::Task::kTrain && !config_.resume.empty()) {
    const Cursor& begin = options_.begin;
    EXPECT_TRUE(at.epoch == begin.epoch && at.next == begin.next && at.again == begin.again &&
                at.partial.size() == begin.partial.size())
        << "stopped before it began, it forgets what it had" << where();
    if (!at.partial.empty()) seen.insert("stopped before it began, and saved what some owners had");
  }
  if (epoch_ == 0 || config_.task == JobConfig::Task::kEvaluate || at.epoch != epoch_) return;
  for (uint64_t m = 0; m < config_.train_minibatches; ++m) {
    const bool open = m >= at.next || std::ranges::count(at.again, m) > 0;
    bool done = done_before(m) || (sync() ? versions_.contains(m) : train_.done.contains(m));
    if (!sync() && !done)
      done = std::ranges::all_of(owners_, [&](const Owner& o) {
        const auto of_epoch = o.applied.find(epoch_);
        return of_epoch != o.applied.end() && of_epoch->second.contains(m);
      });
    EXPECT_NE(open, done) << "minibatch " << m << (done ? " would be done twice" : " would be dropped")
                          << where();
    if (sync() || !open) continue;
    std::vector<uint32_t> owners;
    for (uint32_t o = 0; o < owners_.size(); ++o)
      if (const auto of_epoch = owners_[o].applied.find(epoch_);
          of_epoch != owners_[o].applied.end() && of_epoch->second.contains(m))
        owners.push_back(o);
    const auto partial = std::ranges::find(at.partial, m, &Partial::minibatch);
    EXPECT_EQ(owners, partial == at.partial.end() ? std::vector<uint32_t>() : partial->owners)
        << "of minibatch " << m << where();
    if (!owners.empty()) seen.insert("saved what some owners have applied");
  }
}

void World::check_members() {
  EXPECT_EQ(state_.phase(), phase_) << "the phase changed without a word" << where();
  for (Peer& p : peers_)
    if (p.incarnation != 0 && !p.gone && state_.members().find(p.incarnation) == nullptr) {
      if (is_late(p.incarnation) || is_away(p.incarnation)) late_when_lost_.insert(p.incarnation);
      p.gone = true;
      if (!p.left) lost_.insert(p.incarnation);
    }
  std::erase_if(lost_, [&](uint64_t worker) {
    return std::ranges::all_of(owners_, [&](const Owner& o) { return o.fenced.contains(worker); });
  });
  std::erase_if(peers_, [&](Peer& p) {
    if (!p.gone) return false;
    // What it had on its way may still arrive where it is not fenced.
    for (Grant& g : p.grants)
      if (!g.evaluation && !sync() && g.epoch == epoch_ && !p.left && (p.joined.window == 0 || g.begun) &&
          (phase_ == Phase::kTraining || phase_ == Phase::kCheckpointing))
        for (size_t o = 0; o < owners_.size(); ++o)
          if (owners_[o].incarnation != 0 && chance(3)) push(p.incarnation, g, o);
    return true;
  });
}

// No more workers stay than are wanted, and always some are.
void World::check_wanted() {
  EXPECT_GE(state_.wanted_workers(), 1u) << where();
  if (phase_ >= Phase::kEnding) return;
  EXPECT_LE(state_.members().active_workers(), state_.wanted_workers()) << where();
}

void World::check_memory() {
  const JobState::Held held = state_.held();
  if (state_.phase() < Phase::kClosing) {  // then who joins again is refused, though it is a member
    EXPECT_LE(held.members, peers_.size() + owners_.size()) << where();
  }
  EXPECT_LE(held.requests, 4 * held.members + owners_.size() + 1) << where();
  // What a late worker holds waits to be leased again, too.
  size_t minibatches = options_.begin.again.size();
  for (const Book* b : {&train_, &eval_})
    minibatches += 2 * b->held.size() + b->late.size() + b->again.size();
  minibatches += passed_over_.size();
  EXPECT_LE(held.minibatches, minibatches) << where();
  EXPECT_LE(held.questions, lost_.size() + 3) << where();  // fences; counts, a map, a commit
}

void World::check_time_left() {
  const std::optional<double> seconds = state_.remaining();
  if (!seconds) return;
  seen.insert("time left was known");
  EXPECT_GE(*seconds, 0) << where();
  EXPECT_LE(*seconds, TimeLeft::kMost) << where();
}

}  // namespace embers::job_state_testing
