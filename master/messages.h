#pragma once

#include "master/master.h"
#include "master/state/events/events.h"
#include "schema/messages/message_form.h"
#include "schema/status.h"

namespace embers {

// Between messages and the values that JobState knows. Malformed messages throw, as codec.h says.

Event::Join read(wire::JoinRequest::Reader request);  // without ticket and link
Event::Lease read(wire::LeaseRequest::Reader request);
Event::Begin read(wire::BeginRequest::Reader request);
Event::Done read(wire::DoneRequest::Reader request);
Event::Heartbeat read(wire::HeartbeatRequest::Reader request);
Event::Owners read(wire::OwnersRequest::Reader request);
Event::Orders read(wire::OrderRequest::Reader request);
Event::Fail read(wire::FailRequest::Reader request);
Event::Leave read(wire::LeaveRequest::Reader request);
Event::Scale read(wire::ScaleRequest::Reader request);
Event::Drain read(wire::DrainRequest::Reader request);
Event::End read(wire::StopRequest::Reader request);
Event::Checkpoint read(wire::CheckpointRequest::Reader request);

OwnerAnswer read_answer(wire::Empty::Reader reply);
OwnerAnswer read_answer(wire::NormsReply::Reader reply);
OwnerAnswer read_answer(wire::CommitReply::Reader reply);
OwnerAnswer read_answer(wire::StatsReply::Reader reply);

Message<wire::JobReply> job_reply(const MasterConfig& config, bool wants_model);
Message<wire::StatusReply> write(const Status& status);
// Those that go to many members, as when thousands join at once, differ in who they are for, and nothing
// else.
class JoinReplies {
 public:
  Message<wire::JoinReply> write(const Reply::Join& reply, const MasterConfig& config);

 private:
  std::unique_ptr<MessageForm<wire::JoinReply>> form_;
  // Of the form.
  Reply::Addresses owners_;
  uint32_t map_version_ = 0;
  bool reader_ = false;
};
Message<wire::LeaseReply> write(const Reply::Lease& reply, const MasterConfig& config);
Message<wire::BeginReply> write(const Reply::Begin& reply, const MasterConfig& config);
Message<wire::DoneReply> write(const Reply::Done& reply, const MasterConfig& config);
Message<wire::HeartbeatReply> write(const Reply::Heartbeat& reply, const MasterConfig& config);
Message<wire::OwnersReply> write(const Reply::Owners& reply, const MasterConfig& config);
Message<wire::OrderReply> write(const Order& reply, const MasterConfig& config);
Message<wire::CheckpointReply> write(const Reply::Checkpoint& reply, const MasterConfig& config);
Message<wire::Empty> write(const Reply::Empty& reply, const MasterConfig& config);

Message<wire::FenceRequest> write(const Question::Fence& question);
Message<wire::MapRequest> write(const Question::NewMap& question);
Message<wire::NormsRequest> write(const Question::Norms& question);
Message<wire::CommitRequest> write(const Commit& question);
Message<wire::StatsRequest> write(const Question::Stats& question);

}  // namespace embers
