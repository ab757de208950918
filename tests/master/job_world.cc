// What happens in the world.
#include "tests/master/job_world.h"

#include <algorithm>

#include "tests/master/effect_texts.h"

namespace embers::job_state_testing {

Options random_options(uint64_t seed) {
  Random random(seed);
  const auto pick = [&](uint64_t from, uint64_t to) { return from + random() % (to - from + 1); };
  auto config = std::make_shared<JobConfig>();
  TableSpec table;
  table.name = "a";
  table.dim = 1;
  table.initializer = {"zeros", {}};
  table.update_rule = {"sgd", {{"learning_rate", 1.0}}};
  if (pick(0, 2) == 0) table.update_rule.params["clipnorm"] = 1;
  config->model.tables = {table};
  job::Job& job = config->job;
  const job::Mode modes[] = {job::Mode::kAsync, job::Mode::kBounded, job::Mode::kSync};
  job.training.mode = modes[pick(0, 2)];
  job.training.epochs = static_cast<uint32_t>(pick(1, 3));
  job.training.grads_to_wait = static_cast<uint32_t>(pick(1, 4));
  job.training.minibatches_per_lease = static_cast<uint32_t>(pick(1, 5));
  job.training.staleness_bound = static_cast<uint32_t>(pick(0, 3));
  if (pick(0, 1)) job.training.batch_size = kHugeBatch;
  job.job.heartbeat_timeout = 4;
  job.job.worker_timeout = 60;
  if (pick(0, 1)) job.job.lease_timeout = static_cast<double>(pick(3, 10));
  job.storage.buckets = 16;
  job.storage.owner_timeout = 40;
  if (pick(0, 3) > 0) {
    job.storage.backend = "memcached";
    job.storage.journal = "journal";
  }
  config->workers = static_cast<uint32_t>(pick(1, 3));
  config->shards = static_cast<uint32_t>(pick(1, 3));
  config->train_minibatches = pick(0, 9) == 0 ? pick(0, 2) : pick(3, 60);
  config->test_minibatches = pick(0, 1) * pick(1, 40);
  config->output = pick(0, 1) ? "model" : "";
  config->save_every = static_cast<uint32_t>(pick(0, 1));
  if (pick(0, 9) == 0) config->task = JobConfig::Task::kEvaluate;
  config->settings = {"training.batch_size = 64"};
  Options options{seed, pick(50, 3000), config, {}};
  options.hangs = pick(0, 9) == 0 && job.job.lease_timeout > 0;
  options.checkpoints = pick(0, 1) == 0;
  if (pick(0, 3) == 0 && config->train_minibatches > 4) {  // resumed in the middle of an epoch
    config->resume = "model";
    const bool sync = job.training.mode == job::Mode::kSync;
    options.begin.next = sync ? pick(1, 3) : 4;
    if (!sync) options.begin.again = {1, 2};
    if (!sync && config->shards > 1) {
      options.begin.partial = {{1, {0}}};
      if (pick(0, 1)) options.begin.partial.push_back({2, {1}});
    }
    options.begin.version = sync ? 7 : 0;
  }
  return options;
}

void World::play() {
  for (uint64_t i = 0; i < options_.chaos && going(); ++i) chaos();
  for (int i = 0; i < 50000 && going(); ++i) fair();
  if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  EXPECT_EQ(state_.phase(), Phase::kOver) << "stuck" << where();
  EXPECT_TRUE(tickets_.empty()) << tickets_.size() << " requests were never answered" << where();
  if (state_.error()) {
    EXPECT_NE(state_.error()->code(), ErrorCode::kInternal) << state_.error()->what() << where();
  }
}

bool World::all_were_late() const {
  return failed() && std::string(state_.error()->what()).find("no other worker can compute what is left") !=
                         std::string::npos;
}

std::string World::where() const {
  return fmt::format(" (seed {}, event {}, {})", options_.seed, events_, name(state_.phase()));
}

void World::give(decltype(Event::what) what) {
  const Event event{now_, std::move(what)};
  ++events_;
  const auto effects = state_.on(event);
  std::string texts;
  for (const Effect& effect : effects) {
    if (record_) texts += text(effect) + "\n";
    std::visit([this](const auto& seen_now) { see(seen_now); }, effect.what);
  }
  if (record_) log_.emplace_back(event, texts);
  check_members();
  check_wanted();
  check_memory();
  check_time_left();
}

void World::chaos() {
  switch (pick(0, 39)) {
    case 12:
      return want_a_checkpoint();
    case 0:
      return join_worker(chance(8));
    case 1:
      return join_owner();
    case 2:
      return lose_someone();
    case 3:
      return lie();
    case 4:
      return repeat();
    case 5:
      return lose_an_owner();
    case 6:
      return rare();
    case 7:
    case 8:
      return tick();
    case 9:
      return finish_work(true);
    case 10:
      return notice_or_come_back();
    case 11:
      return steer();
    default:
      return fair_step(pick(0, 9));
  }
}

void World::notice_or_come_back() {
  for (Owner& o : owners_)
    if (o.incarnation != 0 && o.away && chance(2)) come_back(o);
  for (Peer& p : peers_)
    if (p.away && !p.gone) return chance(2) ? notice(p) : come_back(p);
}

void World::notice(Peer& p) {
  if (!std::exchange(p.noticed, true)) give(Event::LinkDown{p.link, "the connection ended"});
}

void World::come_back(Peer& p) {
  notice(p);
  if (p.gone) return;
  p.away = p.noticed = false;
  p.link = ++last_link_;
  if (p.join != 0) return join_again(p);
  give(Event::Reconnected{p.incarnation, p.link});
  seen.insert("came back");
}

void World::come_back(Owner& o) {
  o.away = false;
  o.link = ++last_link_;
  if (chance(2)) return give(Event::Reconnected{o.incarnation, o.link});
  o.join.ticket = ticket();
  o.join.link = o.link;
  owner_tickets_.insert(o.join.ticket);
  give(o.join);
  seen.insert("an owner joined again");
}

void World::join_again(Peer& p) {
  Event::Join e = p.joined;
  e.ticket = p.join = ticket();
  e.link = p.link;
  give(e);
  seen.insert("joined again");
}

void World::fair() {
  if (workers() == 0 || state_.members().workers() < config_.workers) join_worker(false);
  join_owner();
  for (Peer& p : peers_) {
    p.silent = false;
    p.hangs = options_.hangs;
    p.asks = !options_.hangs || p.link % 2 == 0;
  }
  notice_or_come_back();
  finish_work(false);
  if (chance(20)) tick();
  fair_step(pick(0, 9));
}

void World::fair_step(uint64_t what) {
  if (what < 4) return answer_a_question();
  Peer* const p = somebody();
  if (p == nullptr) return;
  if (chance(10)) return ask_for_orders(*p);
  if (p->drains && p->grants.empty()) return leave(*p);
  what < 6 ? ask_for_work(*p) : work(*p);
}

bool World::is_connecting(const Event::Join& e) const {
  return std::ranges::any_of(connects_, [&](const Effect::Connect& c) { return c.endpoints == e.endpoints; });
}

size_t World::workers() const {
  return std::count_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.gone; });
}

Peer* World::somebody() {
  if (peers_.empty()) return nullptr;
  Peer& p = peers_[random_() % peers_.size()];
  return p.gone || p.away || p.incarnation == 0 || p.join != 0 ? nullptr : &p;
}

void World::join_worker(bool differs) {
  if (workers() >= kMostWorkers) return;
  Event::Join e;
  e.ticket = ticket();
  e.link = ++last_link_;
  e.host = "here";
  e.model = signature(config_.model);
  e.settings = {differs ? "training.batch_size = 32" : "training.batch_size = 64"};
  e.numeric = {differs ? kOtherNumbers : "threads = 1"};
  e.token = chance(2) ? ++last_token_ : 0;
  e.window = chance(3) ? static_cast<uint32_t>(pick(1, 5)) : 0;
  e.label = chance(3) ? "w" + std::to_string(pick(0, 2)) : "";
  Peer peer;
  peer.link = e.link;
  peer.join = e.ticket;
  peer.joined = e;
  peers_.push_back(peer);
  give(e);
  if (differs) {
    EXPECT_EQ(last_refused_, e.ticket) << "a worker with other settings was let in" << where();
  }
}

void World::join_owner() {
  const size_t dead = std::ranges::count(owners_, 0u, &Owner::incarnation);
  if (dead <= owner_tickets_.size()) return;  // for each of them another one is on its way
  Event::Join e;
  e.ticket = ticket();
  e.link = ++last_link_;
  e.owner = true;
  e.host = "there";
  e.token = chance(2) ? ++last_token_ : 0;
  e.endpoints = {"owner process " + std::to_string(e.link)};
  owner_tickets_.insert(e.ticket);
  owner_joins_[e.endpoints[0]] = e;
  give(e);
  if (owner_tickets_.contains(e.ticket) && !is_connecting(e)) seen.insert("waited for a place");
}

void World::ask_for_orders(Peer& p) {
  if (p.orders != 0 && !chance(50)) return;
  const Ticket asked = ticket(), earlier = std::exchange(p.orders, asked);
  p.orders_since = now_;
  const bool lies = !is_draining(p.incarnation) && chance(20);  // of an order that was never given
  give(Event::Orders{asked, p.incarnation, p.order + lies, p.drains ? 0 : p.order});
  EXPECT_TRUE(last_refused_ == asked || !tickets_.contains(earlier))
      << "an earlier request still waits for orders" << where();
}

void World::leave(Peer& p) {
  p.left = true;
  train_.give_up(p.incarnation);
  eval_.give_up(p.incarnation);
  if (p.drains) seen.insert("drained");
  give(Event::Leave{ticket(), p.incarnation});
}

void World::steer() {
  const Ticket asked = ticket();
  const bool can = !state_.error() && state_.phase() < Phase::kEnding;
  const uint32_t wanted = state_.wanted_workers();
  switch (pick(0, 20)) {
    case 0: {
      const bool save = chance(2);
      if (can) saves_nothing_ |= !save;
      give(Event::End{asked, save});
      EXPECT_EQ(last_refused_ == asked, !can) << where();
      break;
    }
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: {
      const std::string number = std::to_string(pick(0, 9));
      const std::vector<std::string> names{"worker " + number, "worker-" + number, number, "w1", "shard 0"};
      std::vector<std::string> some;
      for (uint64_t i = pick(0, 2); i > 0; --i) some.push_back(names[pick(0, names.size() - 1)]);
      const size_t draining =
          std::ranges::count_if(state_.members().all(), [](const auto& m) { return m.second.draining; });
      give(Event::Drain{asked, some});
      const size_t more =
          std::ranges::count_if(state_.members().all(), [](const auto& m) { return m.second.draining; }) -
          draining;
      EXPECT_LE(state_.wanted_workers(), wanted) << where();
      EXPECT_GE(state_.wanted_workers() + more, wanted) << where();
      EXPECT_TRUE(last_refused_ != asked || more == 0) << "some were drained, not all" << where();
      break;
    }
    default: {
      const auto workers = static_cast<uint32_t>(pick(0, kMostWorkers));
      give(Event::Scale{asked, workers});
      EXPECT_EQ(state_.wanted_workers(), can && workers > 0 ? workers : wanted) << where();
    }
  }
  EXPECT_FALSE(tickets_.contains(asked)) << "who steers the job waits" << where();
}

// Perhaps once more for the same one, or for another one while that is under way.
void World::want_a_checkpoint() {
  if (!options_.checkpoints) return;
  const bool is_open = state_.wants_checkpoint();
  const bool again = wish_ != 0 && !chance(is_open ? 10 : 3);
  const uint64_t id = again ? wish_ : wish_ + 1;
  const Ticket asked = ticket(), earlier = wish_ticket_;
  if (again) wish_ticket_ = asked;
  const Phase phase = state_.phase();
  give(Event::Checkpoint{asked, id, "there"});
  if (again) {
    EXPECT_FALSE(tickets_.contains(earlier)) << "an earlier request still waits" << where();
    return;
  }
  const bool can = !is_open && !state_.error() && phase != Phase::kGathering && phase < Phase::kEnding &&
                   config_.task == JobConfig::Task::kTrain;
  EXPECT_EQ(last_refused_ != asked, can) << where();
  EXPECT_FALSE(tickets_.contains(asked)) << "the first answer comes at once" << where();
  if (can) wish_ = id;
}

void World::finish_checkpoint(bool may_fail) {
  writing_ = std::nullopt;
  if (std::ranges::count(owners_, 0u, &Owner::incarnation) > 0) {
    seen.insert("a checkpoint was cut short");
    give(Event::CheckpointFailed{Error(ErrorCode::kUnavailable, "it is gone")});
  } else if (may_fail && chance(10)) {
    give(Event::CheckpointFailed{Error(ErrorCode::kDisk, "the disk is full")});
    EXPECT_TRUE(!state_.wants_checkpoint() && !tickets_.contains(wish_ticket_)) << "is not told" << where();
  } else {
    seen.insert(phase_ == Phase::kCheckpointing ? "saved in an epoch" : "saved beside");
    give(Event::CheckpointSaved{});
    EXPECT_TRUE(!state_.wants_checkpoint() && !tickets_.contains(wish_ticket_)) << "is not told" << where();
  }
}

void World::ask_for_work(Peer& p) {
  if (!p.asks || (p.lease != 0 && !chance(50))) return;  // seldom once more
  const Ticket earlier = std::exchange(p.lease, ticket());
  lease_tickets_[p.lease] = p.incarnation;
  if (p.joined.token != 0) take_back_lost(p);
  give(Event::Lease{p.lease, p.incarnation, p.received});
  EXPECT_FALSE(tickets_.contains(earlier)) << "an earlier request still waits for work" << where();
}

// It begins before the work is done, in whatever order; a worker may forget that it has asked, and ask again.
void World::ask_to_begin(Peer& p, const Grant& g) {
  if (p.begin != 0 && !chance(10)) return;
  const Ticket earlier = std::exchange(p.begin, ticket());
  p.beginning = g.lease;
  give(Event::Begin{p.begin, p.incarnation, g.lease, g.minibatch, g.attempt});
  EXPECT_FALSE(tickets_.contains(earlier)) << "an earlier request still waits to begin" << where();
}

void World::take_back_lost(Peer& p) {
  if (state_.error()) return;
  p.unheard = false;
  for (Book* book : {&train_, &eval_}) {
    std::erase_if(book->late, [&](const auto& late) {
      return late.second > p.received && book->workers[late.second] == p.incarnation;
    });
    std::erase_if(book->held, [&](const auto& h) {
      if (h.second.worker != p.incarnation || h.second.lease <= p.received) return false;
      book->again.insert(h.first);
      seen.insert("an answer was lost");
      return true;
    });
  }
}

void World::work(Peer& p) {
  if (p.grants.empty() || p.hangs) return;
  const size_t i = random_() % p.grants.size();
  Grant& g = p.grants[i];
  bool back = chance(40);
  if (p.joined.window > 0 && !g.begun && !back && (options_.checkpoints || !chance(50)))
    return ask_to_begin(p, g);
  if (!g.evaluation && !back) {
    for (size_t o = 0; o < owners_.size(); ++o) {
      if (chance(30)) return;  // goes on later
      if (g.pushed.contains(o)) continue;
      if (owners_[o].incarnation == 0 || (sync() && owners_[o].version != g.version)) {
        back = true;
        break;
      }
      push(p.incarnation, g, o);
    }
  }
  Event::Done e;
  e.ticket = ticket();
  e.incarnation = p.incarnation;
  e.lease = g.lease;
  e.minibatch = g.minibatch;
  e.attempt = g.attempt;
  e.returned = back;
  e.examples = examples_of(g.minibatch);
  e.loss_sum = 1;
  const Grant grant = g;
  p.grants.erase(p.grants.begin() + static_cast<std::ptrdiff_t>(i));
  p.since = now_;
  tell_done(e, grant);
  past_.push_back(e);
  if (past_.size() > 20) past_.pop_front();
}

void World::push(uint64_t incarnation, Grant& g, size_t o) {
  Owner& owner = owners_[o];
  if (owner.fenced.contains(incarnation)) return;
  g.pushed.insert(o);
  if (sync()) {
    owner.staged.insert({g.epoch, g.minibatch});  // the first attempt stays
    return;
  }
  const uint64_t examples = examples_of(g.minibatch);
  const auto [known, is_new] = owner.applied[g.epoch].emplace(g.minibatch, examples);
  if (is_new) {
    EXPECT_TRUE(phase_ != Phase::kCheckpointing && !writing_) << "rows change in a checkpoint" << where();
    ++owner.version;
  } else if (known->second == 0 && examples > 0) {
    known->second = examples;  // an earlier run of the job applied it
    seen.insert("what some owners had before was pushed again");
  } else {
    return;
  }
  ++owner.minibatches;
  owner.examples += examples;
}

void World::tell_done(const Event::Done& e, const Grant& g) {
  auto& book = g.evaluation ? eval_ : train_;
  const auto held = book.held.find(g.minibatch);
  const bool holds = held != book.held.end() && held->second.lease == g.lease;
  const bool late = book.late.erase({g.minibatch, g.lease}) > 0 && !book.done.contains(g.minibatch);
  const bool here =
      (g.evaluation ? state_.phase() == Phase::kEvaluating
                    : state_.phase() == Phase::kTraining || state_.phase() == Phase::kCheckpointing) &&
      (holds || late) && !state_.error();
  if (here && (holds || !e.returned)) {
    if (e.returned)
      book.again.insert(g.minibatch);
    else
      book.done.insert({g.minibatch, g.attempt});
    if (!holds && held != book.held.end()) book.late.insert({g.minibatch, held->second.lease});
    if (held != book.held.end()) book.held.erase(held);
    if (late && !e.returned) seen.insert("first though late");
  }
  // It may have been late without anybody having been leased it.
  expected_accepted_ = e.returned && here ? std::nullopt : std::optional(here);
  counted_ = 0;
  done_ = e.ticket;
  give(e);
  if (here && !e.returned) {
    EXPECT_EQ(counted_, 1) << "an accepted minibatch counts once" << where();
  }
  done_ = 0;
}

void World::repeat() {
  if (past_.empty()) return;
  Event::Done e = past_[random_() % past_.size()];
  e.ticket = ticket();
  expected_accepted_ = false;
  counted_ = 0;
  done_ = e.ticket;
  give(e);
  EXPECT_EQ(counted_, 0) << "a repeated message counted again" << where();
  done_ = 0;
  seen.insert("repeated");
}

void World::lie() {
  const uint64_t incarnation = chance(3) ? 1000000 + pick(0, 9) : pick(0, 20);
  const bool is_member = state_.members().find(incarnation) != nullptr;
  switch (pick(0, 4)) {
    case 0: {
      if (is_member) return;
      const Ticket t = ticket();
      give(Event::Lease{t, incarnation});
      return;
    }
    case 1: {
      Event::Done e;
      e.ticket = ticket();
      e.incarnation = incarnation;
      e.lease = 1000000 + pick(0, 9);
      e.minibatch = pick(0, 70);
      e.attempt = static_cast<uint32_t>(pick(0, 3));
      expected_accepted_ = false;
      done_ = e.ticket;
      give(e);
      done_ = 0;
      return;
    }
    case 2:
      return give(Event::Heartbeat{ticket(), 0, chance(2)});
    case 3:
      return give(Event::Owners{ticket(), incarnation, static_cast<uint32_t>(pick(0, 3))});
    case 4:
      return give(Event::OwnerAnswered{static_cast<uint32_t>(random_() % owners_.size()), 999, pick(1, 9),
                                       std::monostate()});
  }
}

void World::lose_someone() {
  if (peers_.empty()) return;
  Peer& p = peers_[random_() % peers_.size()];
  if (p.gone) return;
  switch (pick(0, 7)) {
    case 0:
      if (p.incarnation == 0 || p.join != 0) return;
      seen.insert("left");
      return leave(p);
    case 1:
    case 2:
      if (p.joined.token != 0) return std::exchange(p.away, true) || chance(2) ? void() : notice(p);
      seen.insert("link down");
      return give(Event::LinkDown{p.link, "the connection ended"});
    case 3:
    case 4:
      p.silent = true;
      return;
    default:
      p.hangs = true;
      p.asks = chance(2);
  }
}

void World::lose_an_owner() {
  if (!chance(config_.job.storage.journal.empty() ? 200 : 6)) return;
  const auto number = static_cast<uint32_t>(random_() % owners_.size());
  Owner& o = owners_[number];
  if (o.incarnation == 0) return;
  const bool down = chance(2);
  if (!down && o.join.token != 0) {
    o.away = true;
    return give(Event::LinkDown{o.link, "the connection ended"});
  }
  const uint64_t incarnation = std::exchange(o.incarnation, 0);
  seen.insert("owner lost");
  if (sync() && chance(10) && commits_.size() > 1 && phase_ == Phase::kTraining) {
    o.version = commits_.rbegin()->first - 2;  // the latest may not be complete, but the one before is
    o.stale = true;
  }
  if (chance(3)) o.died_as = incarnation;
  if (o.died_as == incarnation)
    return;  // nobody notices, until it has been silent for long or does not answer
  if (down) return give(Event::OwnerDown{number, incarnation, "the connection ended"});
  give(Event::LinkDown{o.link, "the connection ended"});
}

void World::rare() {
  if (!chance(30)) return;
  switch (pick(0, 3)) {
    case 0:
      return give(Event::Stop{"SIGINT"});
    case 1:
      now_ += std::chrono::seconds(30);
      return;  // suspended
    case 2:
      if (Peer* p = somebody(); p && chance(4))
        give(Event::Fail{ticket(), p->incarnation, Error(ErrorCode::kInvalid, "adult.data:7: 'x'")});
      return;
    case 3:
      for (Owner& o : owners_)
        if (o.incarnation != 0 && chance(4)) give(Event::Heartbeat{ticket(), o.incarnation, true});
      return;
  }
}

void World::tick() {
  now_ += std::chrono::milliseconds(pick(500, 1200));
  for (size_t i = 0; i < peers_.size(); ++i)
    if (!peers_[i].silent && !peers_[i].away && !peers_[i].gone && peers_[i].incarnation != 0 &&
        peers_[i].join == 0)
      give(Event::Heartbeat{ticket(), peers_[i].incarnation, false});
  for (const Owner& o : owners_)
    if (o.incarnation != 0 && !o.away) give(Event::Heartbeat{ticket(), o.incarnation, false});
  give(Event::Tick{});
  for (const Peer& p : peers_)
    if (p.orders != 0 && p.orders_since < now_ - std::chrono::seconds(10))
      ADD_FAILURE() << "a member heard nothing for more than ten seconds" << where();
}

void World::finish_work(bool may_fail) {
  if (!connects_.empty()) {
    const Effect::Connect c = connects_.front();
    connects_.pop_front();
    if (may_fail && chance(4)) {
      if (owners_.at(c.number).incarnation == c.incarnation) owners_.at(c.number).incarnation = 0;
      return give(Event::NotConnected{c.incarnation, Error(ErrorCode::kUnreachable, "nobody listens")});
    }
    return give(Event::Connected{c.incarnation});
  }
  if (writing_ && (tells_ == 0 || chance(2))) return finish_checkpoint(may_fail);
  if (tells_ > 0) {
    --tells_;
    return give(Event::OwnerTold{});
  }
  if (!to_count_.empty() && (!work_ || chance(2))) return sum_up(may_fail);
  if (!work_ || (std::holds_alternative<Effect::Score>(*work_) && !to_count_.empty())) return;
  const auto work = *std::exchange(work_, std::nullopt);
  if (may_fail && chance(60) && !std::holds_alternative<Effect::Score>(work))
    return give(Event::WorkFailed{Error(ErrorCode::kDisk, "the disk is full")});
  if (std::holds_alternative<Effect::Save>(work)) {
    const auto& save = std::get<Effect::Save>(work);
    const bool cut =
        std::any_of(owners_.begin(), owners_.end(), [](const Owner& o) { return o.incarnation == 0; });
    if (cut && save.checkpoint) return give(Event::WorkFailed{Error(ErrorCode::kUnavailable, "it is gone")});
    return give(Event::Saved{save.checkpoint});
  }
  if (std::holds_alternative<Effect::Score>(work)) return give(Event::Scored{0.5, 0.5, 0.5, 10});
  for (const Partial& p : options_.begin.partial)
    for (const uint32_t owner : p.owners) owners_[owner].applied[1].emplace(p.minibatch, 0);
  for (Owner& o : owners_) {
    o.version = options_.begin.version;
    for (uint64_t m = 0; m < options_.begin.next; ++m)
      if (std::ranges::count(options_.begin.again, m) == 0) o.applied[1].emplace(m, 0);
  }
  give(Event::Prepared{options_.begin});
}

void World::sum_up(bool may_fail) {
  if (may_fail && chance(60)) return give(Event::EvaluationFailed{Error(ErrorCode::kDisk, "no space left")});
  summed_up_.insert(to_count_.front());
  to_count_.pop_front();
  while (summed_up_.contains(first_not_summed_up_)) ++first_not_summed_up_;
  give(Event::Counted{first_not_summed_up_});
}

void World::answer_a_question() {
  if (asks_.empty()) return;
  const size_t i = random_() % asks_.size();
  const Effect::Ask ask = asks_[i];
  asks_.erase(asks_.begin() + static_cast<std::ptrdiff_t>(i));
  Owner& o = owners_.at(ask.number);
  if (o.incarnation != ask.incarnation)
    return give(
        Event::OwnerFailed{ask.number, ask.incarnation, ask.id, Error(ErrorCode::kUnavailable, "gone")});
  OwnerAnswer answer = std::visit([&](const auto& q) { return reply(o, q); }, ask.question);
  if (testing::Test::HasFailure()) return;
  give(Event::OwnerAnswered{ask.number, ask.incarnation, ask.id, std::move(answer)});
  if (!o.stale) return;
  EXPECT_TRUE(state_.error() || o.incarnation == 0) << "an owner that lost a version was taken" << where();
  seen.insert("journal lost something");
}

OwnerAnswer World::reply(Owner& o, const Question::Fence& q) {
  return o.fenced.insert(q.incarnation), std::monostate();
}

OwnerAnswer World::reply(Owner& o, const Question::NewMap& q) {
  return o.map = std::max(o.map, q.version), std::monostate();
}

OwnerAnswer World::reply(Owner& o, const Commit& commit) {
  if (commit.version == o.version) return std::monostate();  // asked twice
  EXPECT_EQ(commit.version, o.version + 1) << where();
  for (const auto& part : commit.parts) {
    EXPECT_TRUE(o.staged.contains({epoch_, part.minibatch}))
        << "minibatch " << part.minibatch << " is committed, but is not at every owner" << where();
    o.examples += examples_of(part.minibatch);
    ++o.minibatches;
  }
  o.version = commit.version;
  return std::monostate();
}

OwnerAnswer World::reply(Owner& o, const Question::Stats& q) {
  OwnerCounts counts;
  counts.sums.version = o.version;
  counts.sums.examples = o.examples;
  counts.sums.minibatches = o.minibatches;
  for (const uint64_t m : q.minibatches)
    if (const auto found = o.applied[q.epoch].find(m); found != o.applied[q.epoch].end())
      counts.applied.push_back({m, found->second});
  return counts;
}

}  // namespace embers::job_state_testing
