#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "master/state/events/events.h"

namespace embers {

// What is to follow when every owner has answered.
struct Then {
  enum class What : uint8_t {
    kBegin,
    kProgress,
    kEpoch,
    kFenced,
    kMapKnown,
    kNorms,
    kCommitted,
    kCheckpoint
  };
  What what;
  uint64_t value = 0;  // kFenced: incarnation; kMapKnown: map version
};

// Questions that all owners are asked, and the answers so far. Plain state, owned by the master.
//
// Invariants: (1) a question stays open for an owner until that owner has answered it, whoever holds its
// place, or it is withdrawn; (2) one that all owners have answered is forgotten.
class Questions {
 public:
  struct Open {
    Question::Any question;
    Then then;
    std::set<uint32_t> unanswered;            // owners, by number
    std::map<uint32_t, OwnerAnswer> answers;  // by owner
  };

  // Opens a question to these owners, of which there is one at least; returns its id, never used twice.
  uint64_t ask(Question::Any question, Then then, std::set<uint32_t> owners);
  // Takes an owner's answer; returns the question once the last one has answered. Late answers are ignored.
  std::optional<Open> answer(uint64_t id, uint32_t owner, OwnerAnswer answer);
  // Questions with this consequence have become pointless.
  void withdraw(Then::What what) {
    std::erase_if(open_, [&](const auto& open) { return open.second.then.what == what; });
  }
  // What this owner has not answered, by id.
  std::map<uint64_t, Question::Any> open_for(uint32_t owner) const;
  size_t size() const { return open_.size(); }
  // For a question to one owner alone, which the caller keeps itself.
  uint64_t next_id() { return ++last_; }

 private:
  std::map<uint64_t, Open> open_;
  uint64_t last_ = 0;
};

}  // namespace embers
