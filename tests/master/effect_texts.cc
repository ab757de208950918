#include "tests/master/effect_texts.h"

#include <fmt/ranges.h>

namespace embers::job_state_testing {

std::string text(const Commit& c) {
  std::string out = fmt::format("commit {}:", c.version);
  for (const auto& p : c.parts) out += fmt::format(" {}.{}*{}", p.minibatch, p.attempt, p.weight);
  for (const auto& [variable, norm] : c.norms) out += fmt::format(" norm {}={}", variable.table, norm);
  return out;
}

std::string text(const Question::Fence& q) { return fmt::format("fence {}", q.incarnation); }
std::string text(const Question::NewMap& q) { return fmt::format("map {}", q.version); }
std::string text(const Question::Norms& q) { return "norms of " + text(q.commit); }
std::string text(const Question::Stats& q) { return fmt::format("stats {} {}", q.epoch, q.minibatches); }

std::string text(const Reply::Join& r) {
  return fmt::format("join {} {} {} {} {}", r.incarnation, r.number, r.map_version, r.takes_over,
                     r.owners ? r.owners->size() : 0);
}
std::string text(const Reply::Lease& r) {
  std::string out =
      fmt::format("lease {} {} {} {}:", static_cast<int>(r.kind), r.epoch, r.version, r.lease.id);
  for (const auto& p : r.lease.parts) out += fmt::format(" {}.{}", p.minibatch, p.attempt);
  return out;
}
std::string text(const Reply::Begin& r) { return fmt::format("begun {}", r.begun); }
std::string text(const Reply::Done& r) { return fmt::format("done {}", r.accepted); }
std::string text(const Reply::Heartbeat& r) { return fmt::format("beat {}", r.map_version); }
std::string text(const Reply::Owners& r) {
  return fmt::format("owners {} {}", r.map_version, r.owners->size());
}
std::string text(const Order& r) {
  return fmt::format("order {} {} {}", r.number, static_cast<int>(r.what), r.value);
}
std::string text(const Reply::Checkpoint& r) { return fmt::format("checkpoint {}", r.saved); }
std::string text(const Reply::Empty&) { return "empty"; }

std::string text(const Cursor& c) {
  return fmt::format("{} {} {} {} {} {} {}", c.epoch, c.next, c.again, c.version, c.examples, c.minibatches,
                     c.partial.size());
}
std::string text(const Effect::Answer& e) {
  return fmt::format("answer {} {}", e.ticket, std::visit([](const auto& r) { return text(r); }, e.reply));
}
std::string text(const Effect::Refuse& e) { return fmt::format("refuse {} {}", e.ticket, e.error.what()); }
std::string text(const Effect::Say& e) { return "say " + e.line; }
std::string text(const Effect::ShowProgress& e) {
  return fmt::format("progress {} {} {}", e.progress.epoch, e.progress.minibatches, e.progress.examples);
}
std::string text(const Effect::Entered& e) { return fmt::format("entered {}", name(e.phase)); }
std::string text(const Effect::Adopt& e) {
  return fmt::format("adopt {} tables, {} minibatches", e.config->model.tables.size(),
                     e.config->train_minibatches);
}
std::string text(const Effect::Connect& e) { return fmt::format("connect {} {}", e.number, e.incarnation); }
std::string text(const Effect::Drop& e) { return fmt::format("drop {}", e.incarnation); }
std::string text(const Effect::Ask& e) {
  return fmt::format("ask {} {} {} {}", e.number, e.incarnation, e.id,
                     std::visit([](const auto& q) { return text(q); }, e.question));
}
std::string text(const Effect::Tell& e) { return fmt::format("tell {} {} {}", e.number, e.ok, e.message); }
std::string text(const Effect::Prepare& e) { return "prepare " + text(e.here); }
std::string text(const Effect::CountTrained&) { return "trained"; }
std::string text(const Effect::CountEvaluated& e) { return fmt::format("evaluated {}", e.minibatch); }
std::string text(const Effect::Score&) { return "score"; }
std::string text(const Effect::Save& e) {
  return fmt::format("save {} {} {}", e.checkpoint, e.rows, text(e.at));
}
std::string text(const Effect::Checkpoint& e) {
  return fmt::format("checkpoint {} {}", e.directory, text(e.at));
}

std::string text(const Effect& e) {
  return std::visit([](const auto& what) { return text(what); }, e.what);
}

}  // namespace embers::job_state_testing
