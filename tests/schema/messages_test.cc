// What the schemas' annotations say about messages.
#include "schema/messages/messages.h"

#include <capnp/schema.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace embers {
namespace {

template <class... Messages, class F>
void for_each(MessageList<Messages...>, F&& f) {
  (f.template operator()<Messages>(), ...);
}

TEST(Messages, HaveEachANumberOfItsOwnAndItsStructsName) {
  std::map<uint16_t, std::string> names;
  for_each(AllMessages(), [&]<class T>() {
    const Kind kind = KindOf<T>::kind;
    EXPECT_GT(static_cast<uint16_t>(kind), 0) << name(kind);
    EXPECT_FALSE(name(kind).empty());
    EXPECT_TRUE(names.emplace(static_cast<uint16_t>(kind), name(kind)).second) << name(kind);
  });
  for (uint16_t number = 0; number < 200; ++number) {
    const auto known = names.find(number);
    EXPECT_EQ(name(static_cast<Kind>(number)), known == names.end() ? "" : known->second);
  }
}

// Peers know them by their numbers.
TEST(Messages, NeverChangeTheirNumbers) {
  const std::map<std::string, int> expected{
      {"ErrorReply", 1},        {"Empty", 2},           {"Hello", 3},         {"Welcome", 4},
      {"Challenge", 5},         {"Proof", 6},           {"Ping", 7},          {"PullRequest", 16},
      {"PullReply", 17},        {"PushRequest", 18},    {"PushReply", 19},    {"CommitRequest", 32},
      {"CommitReply", 33},      {"FenceRequest", 34},   {"StatsRequest", 35}, {"StatsReply", 36},
      {"RestoreRequest", 37},   {"ResumeRequest", 38},  {"ScanRequest", 39},  {"ScanReply", 40},
      {"EndRequest", 41},       {"NormsRequest", 48},   {"NormsReply", 49},   {"MapRequest", 50},
      {"ImportRequest", 51},
      {"JobRequest", 64},       {"JobReply", 65},       {"JoinRequest", 66},  {"JoinReply", 67},
      {"LeaseRequest", 68},     {"LeaseReply", 69},     {"DoneRequest", 70},  {"DoneReply", 71},
      {"HeartbeatRequest", 72}, {"HeartbeatReply", 73}, {"FailRequest", 74},  {"LeaveRequest", 75},
      {"OwnersRequest", 76},    {"OwnersReply", 77},    {"OrderRequest", 78}, {"OrderReply", 79},
      {"StatusRequest", 80},    {"StatusReply", 81},    {"ScaleRequest", 82}, {"DrainRequest", 83},
      {"StopRequest", 84},      {"BeginRequest", 85},   {"BeginReply", 86},   {"ProbeRequest", 90},
      {"ProbeReply", 91},       {"AboutRequest", 92},   {"AboutReply", 93},   {"CallRequest", 94},
      {"CallReply", 95},        {"CheckpointRequest", 87}, {"CheckpointReply", 88}};
  for (const auto& [message, number] : expected)
    EXPECT_EQ(name(static_cast<Kind>(number)), message) << number;
}

// The two directions of a conversation: what an actor is asked is answered, and no answer is a question.
TEST(Messages, ThatAnActorServesHaveAReplyThatNobodyServes) {
  std::map<std::string, int> served;
  const auto count = [&]<class T>() {
    ++served[std::string(name(KindOf<T>::kind))];
    served.try_emplace(std::string(name(KindOf<typename KindOf<T>::Reply>::kind)), 0);
  };
  for_each(MasterRequests(), count);
  for_each(OptimizerRequests(), count);
  for_each(ShardRequests(), count);
  for_each(ProbeRequests(), count);
  for (const auto& [message, times] : served)
    EXPECT_EQ(times, message.ends_with("Request") ? 1 : 0) << message;
}

// Who may send what is written beside each message; here is what follows from it.
TEST(Messages, ThatAnActorServesMayBeSentBySomeRolesAndAllOthersByNone) {
  const auto roles = static_cast<uint16_t>(capnp::Schema::from<wire::Role>().getEnumerants().size());
  std::set<std::string> served;
  const auto count = [&]<class T>() { served.emplace(name(KindOf<T>::kind)); };
  for_each(MasterRequests(), count);
  for_each(OptimizerRequests(), count);
  for_each(ShardRequests(), count);
  for_each(ProbeRequests(), count);
  for (uint16_t number = 0; number < 200; ++number) {
    const auto kind = static_cast<Kind>(number);
    int senders = 0;
    for (uint16_t role = 0; role < roles; ++role) senders += may_send(static_cast<wire::Role>(role), kind);
    EXPECT_EQ(senders > 0, served.contains(std::string(name(kind)))) << number << " " << name(kind);
    EXPECT_LT(senders, roles) << name(kind);
    for (uint16_t role = roles; role < roles + 10; ++role)
      EXPECT_FALSE(may_send(static_cast<wire::Role>(role), kind)) << role << " " << name(kind);
  }
}

TEST(Messages, ThatChangeAnOwnersRowsOrEndAJobComeFromTheirRolesOnly) {
  using enum wire::Role;
  const std::map<Kind, std::set<wire::Role>> expected{
      {Kind::kPullRequest, {WORKER, READER}}, {Kind::kPushRequest, {WORKER}},
      {Kind::kCommitRequest, {MASTER}},       {Kind::kFenceRequest, {MASTER}},
      {Kind::kRestoreRequest, {MASTER}},      {Kind::kScanRequest, {MASTER, WORKER, READER}},
      {Kind::kImportRequest, {WORKER}},
      {Kind::kEndRequest, {MASTER}},          {Kind::kLeaseRequest, {WORKER}},
      {Kind::kDoneRequest, {WORKER}},         {Kind::kFailRequest, {OWNER, WORKER}},
      {Kind::kStatusRequest, {ADMIN}},        {Kind::kScaleRequest, {ADMIN}},
      {Kind::kDrainRequest, {ADMIN}},         {Kind::kStopRequest, {ADMIN}},
      {Kind::kBeginRequest, {WORKER}},        {Kind::kCheckpointRequest, {ADMIN}}};
  for (const auto& [kind, roles] : expected)
    for (const wire::Role role : {WORKER, OWNER, READER, ADMIN, MASTER})
      EXPECT_EQ(may_send(role, kind), roles.contains(role)) << name(role) << " " << name(kind);
}

TEST(Roles, HaveNames) {
  EXPECT_EQ(name(wire::Role::WORKER), "worker");
  EXPECT_EQ(name(wire::Role::MASTER), "master");
  EXPECT_EQ(name(static_cast<wire::Role>(99)), "");
}

}  // namespace
}  // namespace embers
