// Large messages between processes of one host: read in place, never overwritten while they are read, and
// over the socket where that is not possible.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "actors/shared_memory/arena.h"
#include "actors/shared_memory/borrower.h"
#include "tests/actors/transport_testing.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr size_t kLarge = Arena::kLeastWords;

// What this address of this process is mapped from.
std::string mapped_from(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (at >= begin && at < end) return line;
  }
  return "";
}
bool is_shared(const Words& words) {
  return mapped_from(words.data()).find("embers-arena") != std::string::npos;
}

// --- the parts -----------------------------------------------------------------------------------

TEST(Mapping, AnotherProcessReadsWhatIsWritten) {
  const auto mine = Mapping::make("test", 1 << 16);
  std::strcpy(reinterpret_cast<char*>(mine->data()), "rows");
  const auto theirs = Mapping::open(::getpid(), mine->file(), false);
  EXPECT_NE(theirs->data(), mine->data());
  EXPECT_STREQ(reinterpret_cast<const char*>(theirs->data()), "rows");
}

TEST(Mapping, RefusesWhatIsNotTheFileThatWasToldOf) {
  const auto mine = Mapping::make("test", 1 << 16);
  SharedFile other = mine->file(), larger = other, closed = other;
  ++other.inode;
  larger.bytes *= 2;
  closed.descriptor = 1 << 20;
  for (const SharedFile& told : {other, larger, closed})
    expect_error(ErrorCode::kUnavailable, {"/proc/"}, [&] { Mapping::open(::getpid(), told, false); });
  expect_error(ErrorCode::kUnavailable, {}, [&] { Mapping::open(1 << 30, mine->file(), false); });
}

TEST(Arena, HasRoomForLargeMessagesAndReusesIt) {
  const auto arena = std::make_shared<Arena>(size_t{8} << 20);
  Words first = arena->words(kLarge), second = arena->words(kLarge + 1000);
  EXPECT_EQ(arena->page_of(first.data()), 0u);
  const auto page = arena->page_of(second.data());
  ASSERT_TRUE(page);
  EXPECT_GE(*page * kArenaPage, kLarge * sizeof(capnp::word));
  first = Words();
  second = Words();
  EXPECT_EQ(arena->page_of(arena->words((size_t{2} << 20) / sizeof(capnp::word)).data()), 0u)
      << "what was given back is not one piece";
}

TEST(Arena, LeavesTheRestToTheHeap) {
  const auto arena = std::make_shared<Arena>(size_t{8} << 20);
  EXPECT_FALSE(arena->page_of(arena->words(kLarge - 1).data())) << "small";
  EXPECT_FALSE(arena->page_of(arena->words((size_t{2} << 20) / 8 + 1).data())) << "too large";
  std::vector<Words> full;
  for (int i = 0; i < 4; ++i) full.push_back(arena->words((size_t{2} << 20) / 8));
  const Words more = arena->words(kLarge);
  EXPECT_FALSE(arena->page_of(more.data())) << "no room";
  EXPECT_EQ(more.size(), kLarge);
  full.pop_back();
  EXPECT_TRUE(arena->page_of(arena->words(kLarge).data()));
  arena->stop();
  EXPECT_FALSE(arena->page_of(arena->words(kLarge).data())) << "stopped";
}

class Lending : public testing::Test {
 protected:
  ~Lending() override { arena_->stop(); }
  // A message with this value in its first word, lent.
  SharedPlace lend(uint64_t value) {
    auto words = std::make_shared<Words>(arena_->words(kLarge));
    std::memcpy(static_cast<void*>(words->data()), &value, sizeof value);
    const auto page = arena_->page_of(words->data());
    const auto slot = lender_->lend(words);
    EXPECT_TRUE(page && slot);
    return {page.value_or(0), slot.value_or(0)};
  }
  static uint64_t value(const Words& words) {
    uint64_t value = 0;
    std::memcpy(&value, words.data(), sizeof value);
    return value;
  }

  const std::shared_ptr<Arena> arena_ = std::make_shared<Arena>(size_t{8} << 20);
  const std::shared_ptr<Lender> lender_ = [this] {
    auto lender = std::make_shared<Lender>(::getpid());
    arena_->add(lender);
    return lender;
  }();
  std::shared_ptr<Borrower> borrower_ =
      std::make_shared<Borrower>(::getpid(), arena_->file(), lender_->file());
};

TEST_F(Lending, AMessageStaysUntilItIsGivenBack) {
  const SharedPlace first = lend(1);
  Words read = borrower_->words(first, kLarge);
  EXPECT_EQ(value(read), 1);
  for (uint64_t i = 2; i < 40; ++i) borrower_->words(lend(i), kLarge);
  EXPECT_EQ(value(read), 1);
  EXPECT_NE(lend(50).page, first.page);
  read = Words();
  EXPECT_EQ(lend(51).page, first.page);
}

TEST_F(Lending, AMessageStaysWhenTheConnectionHasEnded) {
  const SharedPlace first = lend(1);
  const Words read = borrower_->words(first, kLarge);
  borrower_.reset();
  lender_->close();
  EXPECT_FALSE(lender_->lend(nullptr));
  const Words other = arena_->words(kLarge);
  EXPECT_NE(arena_->page_of(other.data()), first.page);
  EXPECT_EQ(value(read), 1);
}

TEST_F(Lending, WhatThePeerNeverHeardOfComesBackWhenItHasDoneWithAll) {
  const SharedPlace first = lend(1);
  borrower_.reset();
  lender_->close();
  EXPECT_EQ(arena_->page_of(arena_->words(kLarge).data()), first.page);
  EXPECT_TRUE(lender_->is_done());
}

TEST_F(Lending, APeerHoldsSoManyAtMost) {
  const auto message = std::make_shared<Words>();
  for (uint32_t i = 0; i < kMostLent; ++i) EXPECT_TRUE(lender_->lend(message));
  EXPECT_FALSE(lender_->lend(message));
}

TEST_F(Lending, APlaceOutsideOfTheMemoryIsRefused) {
  const auto last = static_cast<uint32_t>((size_t{8} << 20) / kArenaPage);
  for (const SharedPlace place : {SharedPlace{last, 0}, {UINT32_MAX, 0}, {last - 1, 0}, {0, kMostLent}})
    expect_error(ErrorCode::kBadFrame, {"memory that the peer shares"},
                 [&] { borrower_->words(place, kLarge); });
}

TEST(Lender, TakesEverythingBackFromAProcessThatHasEnded) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  Lender lender(child);
  const auto message = std::make_shared<int>(1);
  ASSERT_TRUE(lender.lend(message));
  lender.close();
  lender.collect(true);
  EXPECT_EQ(message.use_count(), 2) << "it may still read";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  lender.collect(true);
  EXPECT_EQ(message.use_count(), 1);
  EXPECT_TRUE(lender.is_done());
}

// --- over a connection ---------------------------------------------------------------------------

std::string unix_name(const char* name) { return fmt::format("unix:@embers-{}-{}", ::getpid(), name); }

constexpr uint32_t kManyFloats = 1 << 18;

class SharedTransport : public testing::Test {
 protected:
  Message<wire::PullReply> pull(AskingSide& client, uint64_t minibatch, uint32_t floats = kManyFloats) {
    return client.ask_shard(AskingSide::pull_request(minibatch, floats));
  }
  // The first large message goes over the socket, and has the memory offered.
  void pull_until_shared(AskingSide& client) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!is_shared(pull(client, 1).words())) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  static float value(const Message<wire::PullReply>& reply, uint32_t floats = kManyFloats) {
    return AskingSide::value_of(reply, floats);
  }
};

TEST_F(SharedTransport, LargeMessagesAreReadInPlaceAndStayWhatTheyAre) {
  ServingSide server({unix_name("in-place")});
  AskingSide client(server.endpoints());
  EXPECT_FALSE(is_shared(pull(client, 1).words()));
  pull_until_shared(client);
  EXPECT_FALSE(is_shared(pull(client, 2, 10).words())) << "small";
  std::vector<Message<wire::PullReply>> held;
  for (uint64_t i = 3; i < 20; ++i) held.push_back(pull(client, i));
  for (uint64_t i = 3; i < 20; ++i) {
    EXPECT_TRUE(is_shared(held[i - 3].words()));
    EXPECT_EQ(value(held[i - 3]), i);
  }
}

TEST_F(SharedTransport, MoreThanThereIsRoomForGoesOverTheSocket) {
  ServingSide server({unix_name("no-room")});
  AskingSide client(server.endpoints());
  pull_until_shared(client);
  std::vector<Message<wire::PullReply>> held;  // of 15 MiB each
  size_t shared = 0;
  for (uint64_t i = 1; i <= 24; ++i) {
    held.push_back(pull(client, i, 15 << 18));
    shared += is_shared(held.back().words());
  }
  EXPECT_GT(shared, 10);
  EXPECT_LT(shared, 20);
  for (uint64_t i = 1; i <= 24; ++i) EXPECT_EQ(value(held[i - 1], 15 << 18), i);
}

TEST_F(SharedTransport, WhatIsHeldOutlivesItsConnectionAndItsServer) {
  Message<wire::PullReply> held;
  {
    ServingSide server({unix_name("outlives")});
    AskingSide client(server.endpoints()), other(server.endpoints());
    pull_until_shared(client);
    held = pull(client, 7);
    client.link->close(Error(ErrorCode::kUnavailable, "enough"));
    pull_until_shared(other);
    for (uint64_t i = 10; i < 30; ++i) EXPECT_EQ(value(pull(other, i)), i);
    EXPECT_EQ(value(held), 7);
  }
  EXPECT_TRUE(is_shared(held.words()));
  EXPECT_EQ(value(held), 7);
}

TEST_F(SharedTransport, ManyThreadsAskAtOnce) {
  ServingSide server({unix_name("threads")});
  AskingSide client(server.endpoints());
  pull_until_shared(client);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 60; ++i) {
        const uint32_t number = t * 60 + i, floats = i % 3 == 0 ? 3 << 18 : i % 3 == 1 ? 1 << 17 : 1 + i;
        EXPECT_EQ(client.pull(number, floats), number);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SharedTransport, RequestsAreReadInPlaceToo) {
  ServingSide server({unix_name("requests")});
  AskingSide client(server.endpoints());
  const std::vector<int64_t> keys(1 << 17);
  const TableSlices slices{0, {KeyKind::kInt64, keys, {}, {}}, 0, {}};
  Origin o = origin(9, 3);
  o.examples = 3;
  const auto ask = [&] {
    const auto request = make_pull(o, wire::ReadMode::LATEST, false, {&slices, 1});
    Words words = client.transport.memory()->words(request.words().size());
    std::memcpy(words.data(), request.words().data(), request.words().bytes().size());
    Message<wire::PullRequest> question(std::move(words));
    EXPECT_EQ(AskingSide::value_of(client.ask_shard(question), 3), 9);
    return is_shared(question.words());
  };
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!ask()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(ask());
}

TEST_F(SharedTransport, NotOverTcp) {
  ServingSide server;
  AskingSide client(server.endpoints());
  for (uint64_t i = 1; i < 10; ++i) {
    const auto reply = pull(client, i);
    EXPECT_FALSE(is_shared(reply.words()));
    EXPECT_EQ(value(reply), i);
  }
}

TEST_F(SharedTransport, NotWithAPeerThatSharesNothing) {
  ServingSide server({unix_name("nothing")});
  AskingSide client(server.endpoints());
  EXPECT_EQ(client.pull(0, 1), 0);
  OneSide alone;
  alone.transport.share_nothing();
  const auto link = Link::open(alone.transport, server.endpoints(), kWorker, 10s);
  const auto shard = link->proxy<ShardInterface>(Destination::kShard);
  caf::scoped_actor self{alone.system};
  for (uint64_t i = 1; i < 10; ++i)
    EXPECT_FALSE(is_shared(ask(self.ptr(), shard, AskingSide::pull_request(i, kManyFloats)).words()));
}

class HostileSharing : public SharedTransport {
 protected:
  ~HostileSharing() override { EXPECT_EQ(good_.pull(5, 10), 5) << "another client noticed"; }
  // To a server that this peer has shaken hands with.
  Error answer_to(std::string_view bytes) {
    RawPeer peer(server_.endpoints()[0]);
    peer.shake_hands();
    peer.send(bytes);
    return peer.receive_error();
  }
  static std::string at(const SharedPlace& place) {
    FrameHeader h;
    h.kind = static_cast<uint16_t>(Kind::kPullRequest);
    h.destination = static_cast<uint16_t>(Destination::kShard);
    h.flags = FrameHeader::kShared;
    h.words = 1;
    h.total = static_cast<uint32_t>(kLarge);
    h.correlation = 1;
    return RawPeer::frame(h, std::as_bytes(std::span(&place, 1)));
  }
  // Offers this test's own memory.
  static std::string offer(const SharedFile& arena, const SharedFile& slots) {
    const auto write = [](wire::Share::File::Builder b, const SharedFile& file) {
      b.setDescriptor(file.descriptor);
      b.setInode(file.inode);
      b.setBytes(file.bytes);
    };
    return RawPeer::bytes_of(make_message<wire::Share>([&](wire::Share::Builder b) {
                               write(b.initArena(), arena);
                               write(b.initSlots(), slots);
                             }),
                             Destination{}, 0);
  }

  ServingSide server_{{unix_name("hostile")}};
  AskingSide good_{server_.endpoints()};
};

TEST_F(HostileSharing, APlaceInMemoryThatWasNotOffered) {
  const Error error = answer_to(at({0, 0}));
  EXPECT_EQ(name(error.code()), name(ErrorCode::kBadFrame));
  EXPECT_NE(std::string(error.what()).find("not shared"), std::string::npos) << error.what();
}

TEST_F(HostileSharing, APlaceOutsideOfTheMemory) {
  const auto arena = Mapping::make("test", 1 << 20), slots = Mapping::make("test", sizeof(LentSlots));
  const Error error = answer_to(offer(arena->file(), slots->file()) + at({255, 0}));
  EXPECT_EQ(name(error.code()), name(ErrorCode::kBadFrame));
  EXPECT_NE(std::string(error.what()).find("page 255"), std::string::npos) << error.what();
}

TEST_F(HostileSharing, GarbageInTheMemory) {
  const auto arena = Mapping::make("test", 1 << 20), slots = Mapping::make("test", sizeof(LentSlots));
  std::memset(arena->data(), 0xab, arena->size());
  const Error error = answer_to(offer(arena->file(), slots->file()) + at({0, 0}));
  EXPECT_EQ(name(error.code()), name(ErrorCode::kBadFrame)) << error.what();
}

TEST_F(HostileSharing, AnswersThatNobodyAskedFor) {
  const auto taken = make_message<wire::ShareTaken>([](wire::ShareTaken::Builder b) { b.setTaken(true); });
  EXPECT_EQ(name(answer_to(RawPeer::bytes_of(taken, Destination{}, 0)).code()), name(ErrorCode::kBadFrame));
}

TEST_F(HostileSharing, AnOfferOfFilesThatAreNone) {
  // It is not taken, and the connection goes on.
  RawPeer peer(server_.endpoints()[0]);
  peer.shake_hands();
  peer.send(offer({12345, 1, 1 << 20}, {12346, 2, 4096}));
  peer.send(at({0, 0}));
  EXPECT_EQ(name(peer.receive_error().code()), name(ErrorCode::kBadFrame));
}

}  // namespace
}  // namespace embers
