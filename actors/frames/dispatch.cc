#include "actors/frames/dispatch.h"

#include <algorithm>

namespace embers {

template void Dispatch::serve<MasterInterface>(Destination, MasterActor);
template void Dispatch::serve<OptimizerInterface>(Destination, OptimizerActor);
template void Dispatch::serve<ShardInterface>(Destination, ShardActor);

bool Dispatch::takes_from(wire::Role role) const {
  return std::any_of(handlers_.begin(), handlers_.end(), [role](const auto& handler) {
    return may_send(role, static_cast<Kind>(handler.first.second));
  });
}

Dispatch::Handler& Dispatch::handler_of(const Session& session, const InFrame& frame) {
  check_is_request(frame);
  check_sender(session.role(), frame.kind());
  const auto handler = handlers_.find({frame.header.destination, frame.header.kind});
  if (handler == handlers_.end())
    fail(ErrorCode::kBadFrame, "destination {} takes no {} here", frame.header.destination,
         name(frame.kind()));
  return handler->second;
}

// A step of asking; what it throws is answered.
template <class Step>
std::optional<Error> Dispatch::answering(Session& session, const InFrame& frame, Step&& step) {
  const FrameHeader header = frame.header;
  try {
    step();
  } catch (const Error& e) {
    session.answer_error(header, e);
    if (e.code() == ErrorCode::kDenied) return e;
  } catch (const std::exception& e) {
    session.answer_error(header, Error(ErrorCode::kInternal, e.what()));
  }
  return std::nullopt;
}

std::optional<Error> Dispatch::ask(Session& session, InFrame& frame) {
  return answering(session, frame, [&] {
    const Handler& handler = handler_of(session, frame);
    if (!handler.take) return held_.push_back({caf::strong_actor_ptr(session.ctrl()), std::move(frame)});
    if (handler.line && !is_urgent(session.role(), frame.kind())) {
      if (!handler.line->is_short())
        return handler.line->wait({caf::strong_actor_ptr(session.ctrl()), std::move(frame)});
      handler.line->go(frame);
    }
    handler.take(session, frame);
  });
}

std::optional<Error> Dispatch::give(Session& session, InFrame& frame) {
  return answering(session, frame, [&] {
    const Handler& handler = handler_of(session, frame);
    handler.line->go(frame);
    handler.take(session, frame);
  });
}

std::vector<HeldRequest> Dispatch::take_turns() {
  for (const auto& line : lines_)
    if (auto next = line->next(); !next.empty()) return next;
  return {};
}

std::vector<HeldRequest> Dispatch::take_turns_of(const caf::strong_actor_ptr& session) {
  std::vector<HeldRequest> all;
  for (const auto& line : lines_)
    for (HeldRequest& request : line->take(session)) all.push_back(std::move(request));
  return all;
}

}  // namespace embers
