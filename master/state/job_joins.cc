// Joins: who gets into the job, who waits, who is refused.
#include <algorithm>

#include "master/state/job_state.h"
#include "schema/label.h"

namespace embers {
namespace {

std::string worker_at(const Event::Join& e) { return fmt::format("worker pid {} on {}", e.pid, e.host); }

}  // namespace

void JobState::take(const Event::Join& e) {
  check_failed(0);
  if (over_or_failed()) fail(ErrorCode::kJobFailed, "the job is over");
  if (Member* const known = members_.find_token(e.token)) return join_again(*known, e);
  check_label(e.label);
  if (e.owner && may_find_a_place(e)) return apply(e);
  admit(e);
}

Member JobState::joining(const Event::Join& e) {
  Member member;
  member.owner = e.owner;
  member.reader = e.reader;
  member.host = e.host;
  member.pid = e.pid;
  member.endpoints = e.endpoints;
  member.boot_id = e.boot_id;
  member.link = e.link;
  member.more = e.more;
  member.token = e.token;
  member.label = e.label;
  member.window = e.window;
  return member;
}

void JobState::admit(const Event::Join& e) {
  Member member = joining(e);
  // Whoever is refused leaves nothing behind: everything is checked before anything is changed.
  if (member.owner) check_owner(member);
  if (member.worker()) check_worker(e);
  if (member.owner) member.number = *place_for_owner();
  if (member.worker()) accept_numeric_settings(e);
  const Member& added = members_.add(std::move(member), now_);
  leases_ahead_ |= added.window > 0;
  if (added.worker() && wants_model()) adopt(e, added);
  if (added.owner) addresses_.reset();
  if (!e.owner) {
    say(fmt::format("{} joined", added.describe()));
    waiting_joins_.add({e.ticket, added.incarnation, now_});
    if (!added.worker()) return;
    alone_since_ = now_;
    // Whoever was started by hand is welcome, beside those that may come back. Others were started to make
    // the wanted number true, which may have changed meanwhile.
    if (added.label.empty())
      wanted_workers_ = std::max(wanted_workers_, static_cast<uint32_t>(members_.staying_workers()));
    drain_surplus();
    return;
  }
  Place& place = places_[added.number];
  place.holder = Place::Holder::kConnecting;
  place.incarnation = added.incarnation;
  place.join = e.ticket;
  if (!wants_model()) return connect(place);
  place.waits = true;
  say(fmt::format("{} is there, and waits for the model", added.describe()));
}

void JobState::connect(Place& place) {
  place.waits = false;
  const Member& m = *members_.find(place.incarnation);
  effect(Effect::Connect{m.number, m.incarnation, m.describe(), m.endpoints, m.boot_id});
}

// All places are taken, perhaps by processes that have ended: the next process of an owner that was killed
// may be here before the master has noticed.
bool JobState::may_find_a_place(const Event::Join& e) const {
  if (fits(joining(e))) return false;
  size_t may_come_free = 0;
  for (uint32_t number = 0; number < places_.size(); ++number) may_come_free += waits_for(number);
  return size_t{1} + e.more <= may_come_free;
}

// It waits for as long as a loss may go unnoticed.
void JobState::apply(const Event::Join& e) {
  const auto again = std::find_if(applicants_.begin(), applicants_.end(), [&](const Applicant& a) {
    return e.token != 0 && a.join.token == e.token;
  });
  if (again != applicants_.end()) {
    refuse(again->join.ticket, Error(ErrorCode::kUnavailable, kAskedAgain));
    again->join = e;
    return;
  }
  applicants_.push_back({e, after(config_->job.job.heartbeat_timeout + 4 * beat())});
  say(fmt::format(
      "all {} shards have joined; another shard process (pid {} on {}) waits {:.0f} s, in case one of "
      "them is gone",
      config_->shards, e.pid, e.host, -seconds_since(applicants_.back().until)));
}

void JobState::admit_applicants() {
  for (auto it = applicants_.begin(); it != applicants_.end();) {
    const bool has_place = fits(joining(it->join));
    if (!has_place && now_ <= it->until && may_find_a_place(it->join)) {
      ++it;
      continue;
    }
    const Event::Join join = it->join;
    it = applicants_.erase(it);
    try {
      admit(join);
    } catch (const Error& why) {
      refuse(join.ticket, why);
    }
  }
}

// The answer was lost with the connection, or is still to come.
void JobState::join_again(Member& member, const Event::Join& e) {
  if (member.worker()) {
    check_worker(e);
    accept_numeric_settings(e);
  }
  take(Event::Reconnected{member.incarnation, e.link});
  if (!member.owner) return wait(waiting_joins_, {e.ticket, member.incarnation, now_});
  Place& place = places_[member.number];
  if (place.holder == Place::Holder::kConnecting)
    refuse(std::exchange(place.join, e.ticket), Error(ErrorCode::kUnavailable, kAskedAgain));
  else
    effect(Effect::Answer{e.ticket, join_reply(member)});
}

size_t JobState::open_places() const {
  return std::count_if(places_.begin(), places_.end(),
                       [](const Place& p) { return p.holder == Place::Holder::kNobody; });
}

bool JobState::fits(const Member& joining) const {
  return members_.kept_from(joining) + 1 + joining.more <= open_places();
}

// A process with more owners than there are places is refused as a whole, before the first of them joins.
// Otherwise some of its owners would have to leave again, as lost owners. So places are kept for the owners
// of other processes that have begun to join.
void JobState::check_owner(const Member& joining) const {
  const size_t open = open_places();
  const size_t kept = members_.kept_from(joining), come = size_t{1} + joining.more;
  if (open == 0)
    fail(ErrorCode::kInvalid, "this job has {} shards and all have joined{}", config_->shards,
         config_->model.has_embeddings() || config_->job.model_from_worker()
             ? "; a worker that was to hold a share of the rows, too, joins without it (--owner, owner=True)"
             : " (its model has no Embedding layer and needs no shard process)");
  if (kept + come > open)
    fail(ErrorCode::kInvalid,
         "this job has {} shards, of which {} {} not joined yet{}: a process with {} owner{} does not fit "
         "(--owners)",
         config_->shards, open, open == 1 ? "has" : "have",
         kept == 0 ? "" : fmt::format(" (places kept for processes that are still joining: {})", kept), come,
         come == 1 ? "" : "s");
}

void JobState::check_worker(const Event::Join& e) const {
  const std::string where = worker_at(e);
  if (config_->job.model_from_worker()) check_told(e, where);
  if (wants_model()) {
    if (!config_->job.from_worker) check_settings(e.settings, where);
    return;
  }
  if (const std::string d = signature_difference(model_signature_, e.model); !d.empty())
    fail(ErrorCode::kMismatch, "the model differs: {} ({})", d, where);
  check_settings(e.settings, where);
  if (!sync()) return;
  if (const auto differences = numeric_differences(e); !differences.empty())
    fail(ErrorCode::kMismatch,
         "{}; a sync job gives the same weights only with the same settings on all workers",
         differences.front());
}

// The first worker decides, within what the job file and the checkpoint say; the others must agree.
void JobState::check_told(const Event::Join& e, const std::string& where) const {
  if (e.told == nullptr)
    fail(ErrorCode::kMismatch, "{}; this one says nothing ({})",
         config_->job.from_worker
             ? "the job file has neither [model] nor [data], so they come with the first worker, a program "
               "that says what they are"
             : "the model is a Python module, so a worker that runs it says what its tables are",
         where);
  if (!wants_model()) {
    if (const std::string d = difference(*told_model_, *e.told); !d.empty())
      fail(ErrorCode::kMismatch, "the model differs from the first worker's: {} ({})", d, where);
    return;
  }
  const auto& own = config_->settings;
  for (size_t i = 0; config_->job.from_worker && i < own.size(); ++i)
    if (i >= e.settings.size() || e.settings[i] != own[i])
      fail(ErrorCode::kMismatch, "the job differs: {} at the master, {} at the worker ({})", own[i],
           i < e.settings.size() ? e.settings[i] : "nothing more", where);
  if (config_->resume.empty()) return;
  if (const std::string d = signature_difference(config_->saved_model, signature(e.told->model)); !d.empty())
    fail(ErrorCode::kMismatch, "{} was saved by another model: {} ({})", config_->resume, d, where);
}

// How much there is to do, and what decides which records a minibatch has.
void JobState::take_work(const Event::Join& e, JobConfig& config) const {
  config.train_minibatches = e.told->minibatches();
  config.train_records = e.told->records;
  config.job.training.batch_size = e.told->batch_size;
  config.job.training.epochs = e.told->epochs;
  config.train_signature = e.told->amount();
  config.train_signature.insert(config.train_signature.end(),
                                e.settings.begin() + static_cast<std::ptrdiff_t>(config.settings.size()),
                                e.settings.end());
  config.settings = e.settings;
}

// From now on this is a job like others.
void JobState::adopt(const Event::Join& e, const Member& worker) {
  auto config = std::make_shared<JobConfig>(*config_);
  config->model = e.told->model;
  std::string amount;
  if (config->job.from_worker) {
    take_work(e, *config);
    amount = fmt::format("; {} minibatches of {} records in an epoch", config->train_minibatches,
                         config->job.training.batch_size);
  }
  config_ = config;
  told_model_ = e.told;
  model_signature_ = signature(config->model);
  clips_by_norm_ = storage::Clipper(config->model.tables).needs_norms();
  effect(Effect::Adopt{config_});
  const size_t tables =
      std::ranges::count_if(config->model.tables, [](const TableSpec& t) { return !is_reserved(t.name); });
  say(fmt::format("the model came with {}: {} table{}, {} parameter{} and buffers{}", worker.name(), tables,
                  tables == 1 ? "" : "s", config->model.dense.size(),
                  config->model.dense.size() == 1 ? "" : "s", amount));
  for (Place& place : places_)
    if (place.waits) connect(place);
}

// Of a worker that has passed all checks. The first one decides; when it has gone before the job starts,
// nothing was computed with its settings, and the next one does.
void JobState::accept_numeric_settings(const Event::Join& e) {
  if (phase_ == Phase::kGathering && !members_.has_active_worker()) numeric_settings_ = e.numeric;
  for (const std::string& difference : numeric_differences(e)) say(difference);
}

// Between the worker and the first one, in words.
std::vector<std::string> JobState::numeric_differences(const Event::Join& e) const {
  if (phase_ == Phase::kGathering && !members_.has_active_worker()) return {};
  std::vector<std::string> differences;
  for (size_t i = 0; i < std::max(e.numeric.size(), numeric_settings_.size()); ++i) {
    const std::string a = i < numeric_settings_.size() ? numeric_settings_[i] : "nothing";
    const std::string b = i < e.numeric.size() ? e.numeric[i] : "nothing";
    if (a != b)
      differences.push_back(
          fmt::format("numeric settings differ: {} at the first worker, {} at {}", a, b, worker_at(e)));
  }
  return differences;
}

// With different values or data, a worker would compute minibatches other than those that are counted.
void JobState::check_settings(const std::vector<std::string>& theirs, const std::string& where) const {
  const auto first_missing = [](const std::vector<std::string>& lines, const std::vector<std::string>& from) {
    const auto it = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return std::find(from.begin(), from.end(), line) == from.end();
    });
    return it == lines.end() ? std::string("no such value") : *it;
  };
  if (theirs == config_->settings) return;
  fail(ErrorCode::kMismatch, "the job differs: {} at the master, {} at the worker ({})",
       first_missing(config_->settings, theirs), first_missing(theirs, config_->settings), where);
}

void JobState::answer_joins() {
  if (waiting_joins_.empty() || owners_missing() || paused_) return;
  waiting_joins_.take_if([&](const Waiting& w) {
    const Member& member = *members_.find(w.incarnation);
    if (member.reader && phase_ < Phase::kTraining) return false;  // owners have no rows worth reading yet
    effect(Effect::Answer{w.ticket, join_reply(member)});
    return true;
  });
}

Reply::Join JobState::join_reply(const Member& member) {
  return {member.incarnation, member.number,
          map_version_,       member.owner && places_[member.number].away.has_value(),
          member.reader,      member.owner ? nullptr : addresses()};
}

const Reply::Addresses& JobState::addresses() {
  if (addresses_) return addresses_;
  auto all = std::make_shared<std::vector<Reply::Address>>(config_->shards);
  for (uint32_t number = 0; number < config_->shards; ++number)
    if (const Member* const owner = members_.find(places_[number].incarnation))
      (*all)[number] = {owner->endpoints, owner->boot_id};
  return addresses_ = std::move(all);
}

}  // namespace embers
