#include "master/state/events/questions.h"

namespace embers {

uint64_t Questions::ask(Question::Any question, Then then, std::set<uint32_t> owners) {
  const uint64_t id = next_id();
  open_.emplace(id, Open{std::move(question), then, std::move(owners), {}});
  return id;
}

std::optional<Questions::Open> Questions::answer(uint64_t id, uint32_t owner, OwnerAnswer answer) {
  const auto found = open_.find(id);
  if (found == open_.end() || found->second.unanswered.erase(owner) == 0) return std::nullopt;
  found->second.answers[owner] = std::move(answer);
  if (!found->second.unanswered.empty()) return std::nullopt;
  return std::move(open_.extract(found).mapped());
}

std::map<uint64_t, Question::Any> Questions::open_for(uint32_t owner) const {
  std::map<uint64_t, Question::Any> found;
  for (const auto& [id, open] : open_)
    if (open.unanswered.contains(owner)) found.emplace(id, open.question);
  return found;
}

}  // namespace embers
