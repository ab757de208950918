// What a server does with bytes that are not valid frames: an error and a closed connection, for that peer
// only.
#include <random>

#include "tests/actors/transport_testing.h"

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
  EXPECT_REFUSED(answer_to(begin + bytes(first), true), ErrorCode::kBadFrame, "begins twice");
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

}  // namespace
}  // namespace embers
