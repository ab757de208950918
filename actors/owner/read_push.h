#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "actors/owner/gradients.h"
#include "schema/messages/codec.h"
#include "schema/table_spec.h"

namespace embers {

// A push as an owner works with it. Its gradients view the message, or the floats that were made of it, which
// it keeps.
struct ReadPush {
  Message<wire::PushRequest> message;
  Origin origin;
  UnpackedKeys keys;  // those that came packed
  FiniteGradients gradients;
};
using PushPtr = std::shared_ptr<const ReadPush>;

// Takes pushes apart: parses them, makes floats of halves and looks for infinities. That reads every byte of
// a push, so it is done once, when the push arrives. Everything after that works on the ReadPush.
class PushReader {
 public:
  // `tables` must outlive it. `skip_bad`: as finite_gradients' skip.
  PushReader(std::span<const TableSpec> tables, bool skip_bad) : tables_(tables), skip_bad_(skip_bad) {}

  // All gradients have the dim and key kind of their table, and are finite. kBadFrame or kInvalid otherwise.
  PushPtr read(const Message<wire::PushRequest>& push);

  uint64_t pushes() const { return pushes_; }  // read so far

 private:
  const std::span<const TableSpec> tables_;
  const bool skip_bad_;
  uint64_t pushes_ = 0;
};

}  // namespace embers
