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

std::optional<Error> Dispatch::ask(Session& session, InFrame& frame) {
  const FrameHeader header = frame.header;
  try {
    check_is_request(frame);
    check_sender(session.role(), frame.kind());
    const auto handler = handlers_.find({header.destination, header.kind});
    if (handler == handlers_.end())
      fail(ErrorCode::kBadFrame, "destination {} takes no {} here", header.destination, name(frame.kind()));
    if (!handler->second) {
      held_.push_back({caf::strong_actor_ptr(session.ctrl()), std::move(frame)});
      return std::nullopt;
    }
    handler->second(session, frame);
  } catch (const Error& e) {
    session.answer_error(header, e);
    if (e.code() == ErrorCode::kDenied) return e;
  } catch (const std::exception& e) {
    session.answer_error(header, Error(ErrorCode::kInternal, e.what()));
  }
  return std::nullopt;
}

}  // namespace embers
