#include "actors/frames/session.h"

#include <algorithm>

#include "actors/errors.h"

namespace embers {

void Session::enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) {
  if (!what->mid.is_response()) {
    if (!handle_system_message(*what, host, false)) bounce(what, caf::sec::unexpected_message);
    return;
  }
  Open open;
  {
    const MutexLock lock(mutex_);
    const uint64_t id = what->mid.request_id().integer_value();
    const auto known = std::lower_bound(open_.begin(), open_.end(), id,
                                        [](const Open& o, uint64_t sought) { return o.id < sought; });
    if (known == open_.end() || known->id != id) return;
    open = std::move(*known);
    open_.erase(known);
  }
  if (open.arrival) open.arrival->settle();
  const caf::type_erased_tuple& content = what->content();
  if (auto frame = open.make_frame(content, open.request))
    connection_->send(std::move(*frame));
  else if (content.match_elements<caf::error>())
    answer_error(open.request, from_caf(content.get_as<caf::error>(0)));
  else
    answer_error(open.request,
                 Error(ErrorCode::kInternal, "the answer is not of the type that the request asks for"));
}

caf::message_id Session::remember(const FrameHeader& request, MakeFrame make_frame,
                                  std::shared_ptr<Arrival> arrival) {
  const MutexLock lock(mutex_);
  open_.push_back({++last_, request, make_frame, std::move(arrival)});
  return caf::make_message_id(last_);
}

void Session::answer_error(const FrameHeader& request, const Error& error) {
  connection_->send(out_frame(make_error(error.code(), error.what()),
                              static_cast<Destination>(request.destination), request.correlation,
                              FrameHeader::kReply | FrameHeader::kError));
  if (error.code() == ErrorCode::kBadFrame || error.code() == ErrorCode::kDenied) connection_->finish();
}

caf::strong_actor_ptr make_session(caf::actor_system& system, std::shared_ptr<FrameConnection> connection,
                                   wire::Role role, std::string address) {
  caf::actor_config config;
  return caf::make_actor<Session, caf::strong_actor_ptr>(system.next_actor_id(), system.node(), &system,
                                                         config, std::move(connection), role,
                                                         std::move(address));
}

}  // namespace embers
