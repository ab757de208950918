#pragma once

#include "schema/messages/message.h"
#include "schema/messages/messages.h"
#include "storage/update_rules/clipping.h"

namespace embers {

// Norms of gradients between owners and master: each owner's sums go to the master, and the norms of the
// whole gradients come back with the commit.
Message<wire::NormsReply> make_norms_reply(const storage::SquareSums& sums);
// kBadFrame for sums that embers would not write.
storage::SquareSums read(wire::NormsReply::Reader reply);

void write_norms(wire::CommitRequest::Builder out, const storage::SquaredNorms& norms);
storage::SquaredNorms read_norms(wire::CommitRequest::Reader commit);

}  // namespace embers
