// What a server does with bytes that are not valid frames: an error and a closed connection, for that peer
// only.
#include <random>

#include "tests/actors/transport_testing.h"
#include "tests/support/crafted.h"
#include "tests/support/memory_limit.h"

namespace embers {
namespace {

using namespace testing_support;

class HostilePeer : public testing::Test {
 protected:
  ~HostilePeer() override { EXPECT_EQ(good_.pull(5, 10), 5) << "another client noticed"; }

  Error answer_to(std::string_view bytes, bool after_handshake = false) {
    RawPeer peer(server_.endpoints()[0]);
    if (after_handshake) peer.shake_hands();
    peer.send(bytes);
    return peer.receive_error();
  }
  static FrameHeader header(Kind kind, uint32_t words) {
    FrameHeader h;
    h.kind = static_cast<uint16_t>(kind);
    h.destination = static_cast<uint16_t>(Destination::kShard);
    h.total = h.words = words;
    h.correlation = 1;
    return h;
  }
  static std::string bytes(const FrameHeader& h) { return RawPeer::frame(h, {}); }
  static std::string pull() {
    return RawPeer::bytes_of(AskingSide::pull_request(1, 1), Destination::kShard, 1);
  }

  ServingSide server_;
  AskingSide good_{server_.endpoints()};
};

#define EXPECT_REFUSED(error, expected_code, part)                                          \
  do {                                                                                      \
    const Error refused = error;                                                            \
    EXPECT_EQ(name(refused.code()), name(expected_code)) << refused.what();                 \
    EXPECT_NE(std::string(refused.what()).find(part), std::string::npos) << refused.what(); \
  } while (false)

TEST_F(HostilePeer, AnHttpRequest) {
  EXPECT_REFUSED(answer_to("GET / HTTP/1.1\r\nHost: embers\r\nUser-Agent: curl\r\n\r\n"),
                 ErrorCode::kBadFrame, "magic number");
}

TEST_F(HostilePeer, ATooShortGreetingThatEnds) {
  RawPeer peer(server_.endpoints()[0]);
  peer.send("EMB1");
  peer.hang_up();
}

TEST_F(HostilePeer, AFirstFrameThatIsNoHello) {
  EXPECT_REFUSED(answer_to(pull()), ErrorCode::kBadFrame, "where Hello was expected");
}

TEST_F(HostilePeer, AnErrorReplyInsteadOfHello) {
  const auto error = make_error(ErrorCode::kInternal, "me first");
  EXPECT_NE(answer_to(RawPeer::bytes_of(error, Destination{}, 0, FrameHeader::kError)).code(),
            ErrorCode::kInternal);
}

TEST_F(HostilePeer, AnotherProtocolInTheHeaderOrTheHello) {
  FrameHeader h = header(Kind::kHello, 1);
  h.protocol = 99;
  EXPECT_REFUSED(answer_to(bytes(h)), ErrorCode::kMismatch, "protocol 99");
  EXPECT_REFUSED(answer_to(RawPeer::bytes_of(RawPeer::hello(42), Destination{}, 0)), ErrorCode::kMismatch,
                 "protocol " + std::to_string(kProtocol) + " here, 42 at the peer");
}

TEST_F(HostilePeer, AnotherNumberFormat) {
  EXPECT_REFUSED(answer_to(RawPeer::bytes_of(RawPeer::hello(kProtocol, 7, "bfloat16-be"), Destination{}, 0)),
                 ErrorCode::kMismatch, "bfloat16-be");
}

TEST_F(HostilePeer, AMessageTooLargeForAStranger) {
  EXPECT_REFUSED(answer_to(bytes(header(Kind::kHello, 1 << 14))), ErrorCode::kBadFrame, "words");
}

TEST_F(HostilePeer, HeadersWithWrongSizes) {
  FrameHeader empty = header(Kind::kPullRequest, 0);
  FrameHeader huge = header(Kind::kPullRequest, 1);
  huge.total = UINT32_MAX;
  FrameHeader chunks = header(Kind::kPullRequest, 4);
  chunks.chunks = 2;
  FrameHeader place = header(Kind::kPullRequest, 4);
  place.chunk = UINT32_MAX;
  FrameHeader words = header(Kind::kPullRequest, 4);
  words.words = 3;
  for (const FrameHeader& h : {empty, huge, chunks, place, words})
    EXPECT_REFUSED(answer_to(bytes(h), true), ErrorCode::kBadFrame, "words");
}

TEST_F(HostilePeer, ChunksOutOfOrder) {
  FrameHeader second = header(Kind::kPullRequest, 0);
  second.total = 2 * kChunkWords;
  second.chunks = 2;
  second.chunk = 1;
  second.words = kChunkWords;
  EXPECT_REFUSED(answer_to(bytes(second), true), ErrorCode::kBadFrame, "out of order");
  FrameHeader first = second;
  first.chunk = 0;
  const std::string begin = bytes(first) + std::string(kChunkWords * 8, '\0');
  EXPECT_REFUSED(answer_to(begin + bytes(first), true), ErrorCode::kBadFrame, "in the middle of message 1");
  FrameHeader other = second;
  other.total = 2 * kChunkWords - 1;
  other.words = kChunkWords - 1;
  EXPECT_REFUSED(answer_to(begin + bytes(other), true), ErrorCode::kBadFrame, "out of order");
}

TEST_F(HostilePeer, AKindThatIsNone) {
  EXPECT_REFUSED(answer_to(bytes(header(static_cast<Kind>(9999), 1)), true), ErrorCode::kBadFrame,
                 "kind 9999");
}

TEST_F(HostilePeer, ADestinationThatIsNone) {
  EXPECT_REFUSED(answer_to(RawPeer::bytes_of(AskingSide::pull_request(1, 1), Destination{77}, 1), true),
                 ErrorCode::kBadFrame, "destination 77");
}

TEST_F(HostilePeer, ARequestThatItsDestinationDoesNotTake) {
  EXPECT_REFUSED(answer_to(RawPeer::bytes_of(make_push(Origin{}, {}), Destination::kShard, 1), true),
                 ErrorCode::kBadFrame, "takes no PushRequest");
}

TEST_F(HostilePeer, AReplyThatNobodyAskedFor) {
  EXPECT_REFUSED(answer_to(RawPeer::bytes_of(AskingSide::pull_request(1, 1), Destination::kShard, 1,
                                             FrameHeader::kReply),
                           true),
                 ErrorCode::kBadFrame, "reply");
}

TEST_F(HostilePeer, AFrameWhoseBodyIsNoMessage) {
  std::string frame = pull();
  std::fill(frame.begin() + sizeof(FrameHeader), frame.end(), '\xff');
  EXPECT_REFUSED(answer_to(frame, true), ErrorCode::kBadFrame, "malformed PullRequest");
}

TEST_F(HostilePeer, RandomBytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::string noise(1 + random() % 4000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    RawPeer peer(server_.endpoints()[0]);
    if (round % 2) peer.shake_hands();
    peer.send(noise);
  }
}

TEST_F(HostilePeer, RandomMutationsOfValidFrames) {
  std::mt19937_64 random(2);
  const std::vector<int64_t> ints{1, 2, 3};
  const TableSlices slices{0, KeysView{KeyKind::kInt64, ints, {}, {}}, 0, {}};
  const std::vector<std::string> frames{
      RawPeer::bytes_of(RawPeer::hello(), Destination{}, 0), pull(),
      RawPeer::bytes_of(make_pull(origin(1), wire::ReadMode::EXACT, true, {&slices, 1}), Destination::kShard,
                        2),
      RawPeer::bytes_of(make_restore({&slices, 1}, true), Destination::kShard, 3)};
  for (int round = 0; round < 1500; ++round) {
    std::string frame = frames[random() % frames.size()];
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips)
      frame[random() % frame.size()] ^= static_cast<char>(1 << random() % 8);
    RawPeer peer(server_.endpoints()[0]);
    if (round % 4) peer.shake_hands();
    peer.send(frame);
  }
}

// --- under a memory limit ------------------------------------------------------------------------

// Copies the texts of joins, as the master does.
MasterActor::behavior_type copying_master(MasterActor::pointer /*self*/, int /*unused*/) {
  const Error no(ErrorCode::kInvalid, "this master only reads joins");
  return {
      [=](const Message<wire::JobRequest>&) -> caf::result<Message<wire::JobReply>> { return to_caf(no); },
      [=](const Message<wire::JoinRequest>& m) -> caf::result<Message<wire::JoinReply>> {
        return guarded(Kind::kJoinRequest, [&] {
          const size_t lines = read_texts(m.get().getModel()).size();
          return make_message<wire::JoinReply>(
              [&](wire::JoinReply::Builder b) { b.setNumber(static_cast<uint32_t>(lines)); });
        });
      },
      [=](const Message<wire::LeaseRequest>&) -> caf::result<Message<wire::LeaseReply>> {
        return to_caf(no);
      },
      [=](const Message<wire::BeginRequest>&) -> caf::result<Message<wire::BeginReply>> {
        return to_caf(no);
      },
      [=](const Message<wire::DoneRequest>&) -> caf::result<Message<wire::DoneReply>> { return to_caf(no); },
      [=](const Message<wire::HeartbeatRequest>&) -> caf::result<Message<wire::HeartbeatReply>> {
        return to_caf(no);
      },
      [=](const Message<wire::FailRequest>&) -> caf::result<Message<wire::Empty>> { return to_caf(no); },
      [=](const Message<wire::LeaveRequest>&) -> caf::result<Message<wire::Empty>> { return to_caf(no); },
      [=](const Message<wire::OwnersRequest>&) -> caf::result<Message<wire::OwnersReply>> {
        return to_caf(no);
      },
      [=](const Message<wire::OrderRequest>&) -> caf::result<Message<wire::OrderReply>> {
        return to_caf(no);
      },
      [=](const Message<wire::StatusRequest>&) -> caf::result<Message<wire::StatusReply>> {
        return to_caf(no);
      },
      [=](const Message<wire::ScaleRequest>&) -> caf::result<Message<wire::Empty>> { return to_caf(no); },
      [=](const Message<wire::DrainRequest>&) -> caf::result<Message<wire::Empty>> { return to_caf(no); },
      [=](const Message<wire::StopRequest>&) -> caf::result<Message<wire::Empty>> { return to_caf(no); },
      [=](const Message<wire::CheckpointRequest>&) -> caf::result<Message<wire::CheckpointReply>> {
        return to_caf(no);
      }};
}

std::vector<std::string> frames_of(const Message<wire::JoinRequest>& message) {
  std::vector<std::string> frames;
  FrameHeader h = out_frame(message, Destination::kMaster, 1, 0).header;
  const auto bytes = message.words().bytes();
  h.total = static_cast<uint32_t>(message.words().size());
  h.chunks = static_cast<uint32_t>((h.total + kChunkWords - 1) / kChunkWords);
  for (; h.chunk < h.chunks; ++h.chunk) {
    const size_t begin = h.chunk * kChunkWords;
    h.words = static_cast<uint32_t>(std::min(kChunkWords, h.total - begin));
    frames.push_back(RawPeer::frame(h, bytes.subspan(begin * 8, size_t{h.words} * 8)));
  }
  return frames;
}

TEST(HostilePeerUnderAMemoryLimit, AMillionPointersToOneTextAreRefusedBeforeAndAfterTheHandshake) {
  EXPECT_TRUE(succeeds_within(size_t{2} << 30, [] {
    OneSide side;
    const MasterActor master = static_cast<caf::actor_system&>(side.system).spawn(copying_master, 0);
    const auto server = Server::listen(side.transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
    server->serve<MasterInterface>(Destination::kMaster, master);
    server->start();
    const auto frames = frames_of(Message<wire::JoinRequest>(a_million_times_one_text()));
    {
      RawPeer stranger(server->endpoints()[0]);
      stranger.send(std::string_view(frames[0]).substr(0, sizeof(FrameHeader)));
      EXPECT_REFUSED(stranger.receive_error(), ErrorCode::kBadFrame, "words");
    }
    RawPeer peer(server->endpoints()[0]);
    peer.shake_hands();
    for (const std::string& frame : frames) peer.send(frame);
    EXPECT_REFUSED(peer.receive_error(), ErrorCode::kBadFrame, "malformed JoinRequest");
    RawPeer honest(server->endpoints()[0]);
    honest.shake_hands();
    for (const std::string& frame : frames_of(make_message<wire::JoinRequest>())) honest.send(frame);
    const auto reply = honest.receive();
    EXPECT_TRUE(reply && !reply->error());
    caf::anon_send_exit(master, caf::exit_reason::user_shutdown);
    server->stop();
    side.transport.stop();
  }));
}

}  // namespace
}  // namespace embers
