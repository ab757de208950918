#pragma once

#include "schema/messages/messages.h"

namespace embers {

// kDenied unless this role may send messages of this kind (the annotation `sentBy` of schema/messages.capnp).
void check_sender(wire::Role role, Kind kind);

// What a role may not say in a message that it may send: kDenied. A JoinRequest must name the sender's own
// role, and a reader's pull makes no rows.
template <class Reader>
void check_claims(wire::Role, const Reader&) {}
void check_claims(wire::Role role, const wire::JoinRequest::Reader& request);
void check_claims(wire::Role role, const wire::PullRequest::Reader& request);

}  // namespace embers
