#include "schema/messages.h"

namespace embers {

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kErrorReply:
      return "ErrorReply";
    case Kind::kEmpty:
      return "Empty";
    case Kind::kHello:
      return "Hello";
    case Kind::kWelcome:
      return "Welcome";
    case Kind::kPullRequest:
      return "PullRequest";
    case Kind::kPullReply:
      return "PullReply";
    case Kind::kPushRequest:
      return "PushRequest";
    case Kind::kPushReply:
      return "PushReply";
    case Kind::kCommitRequest:
      return "CommitRequest";
    case Kind::kCommitReply:
      return "CommitReply";
    case Kind::kNormsRequest:
      return "NormsRequest";
    case Kind::kNormsReply:
      return "NormsReply";
    case Kind::kFenceRequest:
      return "FenceRequest";
    case Kind::kMapRequest:
      return "MapRequest";
    case Kind::kStatsRequest:
      return "StatsRequest";
    case Kind::kStatsReply:
      return "StatsReply";
    case Kind::kRestoreRequest:
      return "RestoreRequest";
    case Kind::kResumeRequest:
      return "ResumeRequest";
    case Kind::kScanRequest:
      return "ScanRequest";
    case Kind::kScanReply:
      return "ScanReply";
    case Kind::kEndRequest:
      return "EndRequest";
    case Kind::kJobRequest:
      return "JobRequest";
    case Kind::kJobReply:
      return "JobReply";
    case Kind::kJoinRequest:
      return "JoinRequest";
    case Kind::kJoinReply:
      return "JoinReply";
    case Kind::kLeaseRequest:
      return "LeaseRequest";
    case Kind::kLeaseReply:
      return "LeaseReply";
    case Kind::kDoneRequest:
      return "DoneRequest";
    case Kind::kDoneReply:
      return "DoneReply";
    case Kind::kHeartbeatRequest:
      return "HeartbeatRequest";
    case Kind::kHeartbeatReply:
      return "HeartbeatReply";
    case Kind::kFailRequest:
      return "FailRequest";
    case Kind::kLeaveRequest:
      return "LeaveRequest";
    case Kind::kOwnersRequest:
      return "OwnersRequest";
    case Kind::kOwnersReply:
      return "OwnersReply";
  }
  return "";
}

}  // namespace embers
