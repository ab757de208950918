#pragma once

#include <capnp/schema.h>

#include <cstdint>
#include <string_view>

#include "schema/common.capnp.h"
#include "schema/control.capnp.h"
#include "schema/handshake.capnp.h"
#include "schema/owner.capnp.h"
#include "schema/rows.capnp.h"

namespace embers {

// Raised whenever a message changes in a way that an older peer would misread.
inline constexpr uint32_t kProtocol = 4;
inline constexpr char kNumberFormat[] = "float32-le";

// Number of a message type in a frame. Stable: never renumber, never reuse.
enum class Kind : uint16_t {
  kErrorReply = 1,
  kEmpty = 2,
  kHello = 3,
  kWelcome = 4,
  kPullRequest = 16,
  kPullReply = 17,
  kPushRequest = 18,
  kPushReply = 19,
  kCommitRequest = 32,
  kCommitReply = 33,
  kFenceRequest = 34,
  kStatsRequest = 35,
  kStatsReply = 36,
  kRestoreRequest = 37,
  kResumeRequest = 38,
  kScanRequest = 39,
  kScanReply = 40,
  kEndRequest = 41,
  kNormsRequest = 48,
  kNormsReply = 49,
  kMapRequest = 50,
  kJobRequest = 64,
  kJobReply = 65,
  kJoinRequest = 66,
  kJoinReply = 67,
  kLeaseRequest = 68,
  kLeaseReply = 69,
  kDoneRequest = 70,
  kDoneReply = 71,
  kHeartbeatRequest = 72,
  kHeartbeatReply = 73,
  kFailRequest = 74,
  kLeaveRequest = 75,
  kOwnersRequest = 76,
  kOwnersReply = 77,
};

// Name for messages, "" for a number that is no kind.
std::string_view name(Kind kind);

// Kind of a message type, and the type of its answer: KindOf<wire::PullRequest>::kind, ::Reply.
template <class T>
struct KindOf;

#define EMBERS_KIND(Type)                       \
  template <>                                   \
  struct KindOf<wire::Type> {                   \
    static constexpr Kind kind = Kind::k##Type; \
  };
#define EMBERS_REQUEST(Type, Answer)            \
  template <>                                   \
  struct KindOf<wire::Type> {                   \
    static constexpr Kind kind = Kind::k##Type; \
    using Reply = wire::Answer;                 \
  };

EMBERS_KIND(ErrorReply)
EMBERS_KIND(Empty)
EMBERS_KIND(Welcome)
EMBERS_KIND(PullReply)
EMBERS_KIND(PushReply)
EMBERS_KIND(CommitReply)
EMBERS_KIND(NormsReply)
EMBERS_KIND(StatsReply)
EMBERS_KIND(ScanReply)
EMBERS_KIND(JobReply)
EMBERS_KIND(JoinReply)
EMBERS_KIND(LeaseReply)
EMBERS_KIND(DoneReply)
EMBERS_KIND(HeartbeatReply)
EMBERS_KIND(OwnersReply)
EMBERS_REQUEST(Hello, Welcome)
EMBERS_REQUEST(PullRequest, PullReply)
EMBERS_REQUEST(PushRequest, PushReply)
EMBERS_REQUEST(CommitRequest, CommitReply)
EMBERS_REQUEST(NormsRequest, NormsReply)
EMBERS_REQUEST(FenceRequest, Empty)
EMBERS_REQUEST(MapRequest, Empty)
EMBERS_REQUEST(StatsRequest, StatsReply)
EMBERS_REQUEST(RestoreRequest, Empty)
EMBERS_REQUEST(ResumeRequest, Empty)
EMBERS_REQUEST(ScanRequest, ScanReply)
EMBERS_REQUEST(EndRequest, Empty)
EMBERS_REQUEST(JobRequest, JobReply)
EMBERS_REQUEST(JoinRequest, JoinReply)
EMBERS_REQUEST(LeaseRequest, LeaseReply)
EMBERS_REQUEST(DoneRequest, DoneReply)
EMBERS_REQUEST(HeartbeatRequest, HeartbeatReply)
EMBERS_REQUEST(FailRequest, Empty)
EMBERS_REQUEST(LeaveRequest, Empty)
EMBERS_REQUEST(OwnersRequest, OwnersReply)

#undef EMBERS_KIND
#undef EMBERS_REQUEST

}  // namespace embers
