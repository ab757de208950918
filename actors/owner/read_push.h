#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "actors/owner/gradients.h"
#include "schema/codec.h"
#include "schema/table_spec.h"

namespace embers {

// A push as an owner goes on with it: its gradients view the message, or what was made of it. A push that was
// sent as halves also keeps its floats for as long.
struct ReadPush {
  Message<wire::PushRequest> message;
  Origin origin;
  FiniteGradients gradients;
};
using PushPtr = std::shared_ptr<const ReadPush>;

// Takes pushes apart: parses them, makes floats of halves and looks for infinities. That reads every byte of
// a push, so it is done when the push arrives and never again: whatever follows works on the ReadPush.
class PushReader {
 public:
  // `tables` must outlive it. `skip_bad`: as finite_gradients' skip.
  PushReader(std::span<const TableSpec> tables, bool skip_bad) : tables_(tables), skip_bad_(skip_bad) {}

  // Gradients each of its table's dim and kind of key, and finite; kBadFrame or kInvalid for others.
  PushPtr read(const Message<wire::PushRequest>& push);

  uint64_t pushes() const { return pushes_; }  // read so far

 private:
  const std::span<const TableSpec> tables_;
  const bool skip_bad_;
  uint64_t pushes_ = 0;
};

}  // namespace embers
