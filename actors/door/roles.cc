#include "actors/door/roles.h"

#include "base/errors.h"

namespace embers {

void check_sender(wire::Role role, Kind kind) {
  if (!may_send(role, kind)) fail(ErrorCode::kDenied, "the role {} may not send {}", name(role), name(kind));
}

void check_claims(wire::Role role, const wire::JoinRequest::Reader& request) {
  if (request.getRole() == role) return;
  fail(ErrorCode::kDenied, "the role {} may not join a job as {}", name(role),
       name(request.getRole()).empty() ? "an unknown role" : name(request.getRole()));
}

void check_claims(wire::Role role, const wire::PullRequest::Reader& request) {
  if (role == wire::Role::READER && request.getCreate())
    fail(ErrorCode::kDenied, "the role reader may not create rows");
}

}  // namespace embers
