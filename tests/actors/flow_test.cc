// Back-pressure: bytes that arrive and leave are bounded, nothing is too large to pass alone, nobody hangs.
#include "actors/transport/connections/flow.h"

#include <future>
#include <thread>
#include <utility>

#include "tests/actors/transport_testing.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr size_t kMiB = size_t{1} << 20;

// --- ByteBudget ----------------------------------------------------------------------------------

class Budget : public testing::Test {
 protected:
  ByteBudget::Granted note(int who) {
    return [this, who](ByteBudget::Share share) {
      served_.push_back(who);
      later_.push_back(std::move(share));
    };
  }
  const std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(100);
  std::vector<int> served_;
  std::vector<ByteBudget::Share> later_;
};

TEST_F(Budget, WhatFitsIsTakenAndGivenBack) {
  auto a = budget_->take(60, note(1)), b = budget_->take(40, note(2));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(budget_->taken(), 100);
  a.reset();
  EXPECT_EQ(budget_->taken(), 40);
  b.reset();
  EXPECT_EQ(budget_->taken(), 0);
  EXPECT_EQ(budget_->most_taken(), 100);
  EXPECT_TRUE(served_.empty());
}

TEST_F(Budget, WhoWaitsIsServedInOrder) {
  auto a = budget_->take(60, note(0)), b = budget_->take(40, note(0));
  EXPECT_FALSE(budget_->take(50, note(1)));
  EXPECT_FALSE(budget_->take(1, note(2))) << "a small one overtook a large one";
  b.reset();
  EXPECT_TRUE(served_.empty()) << "40 are left, 50 are wanted";
  a.reset();
  EXPECT_EQ(served_, (std::vector<int>{1, 2}));
  EXPECT_EQ(budget_->taken(), 51);
}

TEST_F(Budget, WhatIsLargerThanTheWholePassesAlone) {
  auto a = budget_->take(1, note(0));
  EXPECT_FALSE(budget_->take(1000, note(1)));
  EXPECT_FALSE(budget_->take(1, note(2)));
  a.reset();
  EXPECT_EQ(served_, std::vector<int>{1});
  std::exchange(later_, {}).clear();  // who is served meanwhile adds to it
  EXPECT_EQ(served_, (std::vector<int>{1, 2}));
  EXPECT_EQ(budget_->most_taken(), 1000);
}

TEST_F(Budget, WhoIsGoneWhenItsTurnComesTakesNothing) {
  auto a = budget_->take(100, note(0));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(budget_->take(100, [](const ByteBudget::Share&) {}));
  EXPECT_FALSE(budget_->take(100, note(1)));
  a.reset();
  EXPECT_EQ(served_, std::vector<int>{1});
}

TEST_F(Budget, IsSharedByThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this] {
      for (int i = 0; i < 500; ++i) {
        const auto granted = std::make_shared<std::promise<ByteBudget::Share>>();
        auto share = budget_->take(70, [=](ByteBudget::Share s) { granted->set_value(std::move(s)); });
        if (!share) share = granted->get_future().get();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget_->taken(), 0);
  EXPECT_EQ(budget_->most_taken(), 70);
}

// --- a process with limits -----------------------------------------------------------------------

constexpr uint32_t kDim = 1024;

// Serves an owner with these limits.
struct Limited : OneSide {
  explicit Limited(const FlowLimits& limits, bool sync = false)
      : flow(std::make_shared<Flow>(limits)),
        owner(spawn_owner(system, owner_config(sync, {table("t", kDim), table("narrow", 1)}))) {
    transport.share(flow);
    server = Server::listen(transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
    server->serve<OptimizerInterface>(Destination::kOptimizer, owner.optimizer);
    server->serve<ShardInterface>(Destination::kShard, owner.shard);
    server->start();
  }
  ~Limited() {
    server.reset();
    transport.stop();
    end_owner(owner);
  }

  const std::shared_ptr<Flow> flow;
  const OwnerHandles owner;
  std::shared_ptr<Server> server;
};

std::vector<int64_t> keys(size_t count) {
  std::vector<int64_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<int64_t>(i);
  return out;
}

// A push to the table of this many rows: 4 KiB each.
Message<wire::PushRequest> push_of(uint64_t minibatch, size_t rows) {
  const std::vector<int64_t> ints = keys(rows);
  const std::vector<float> values(rows * kDim, 1e-3f);
  const TableSlices slices{0, KeysView{KeyKind::kInt64, ints, {}, {}}, kDim, values};
  return make_push(origin(minibatch), {&slices, 1});
}

// A pull of this many rows: 8 bytes each, and 4 KiB in the answer.
Message<wire::PullRequest> pull_of(size_t rows) {
  const std::vector<int64_t> ints = keys(rows);
  const TableSlices slices{0, KeysView{KeyKind::kInt64, ints, {}, {}}, 0, {}};
  return make_pull(origin(0), wire::ReadMode::LATEST, true, {&slices, 1});
}

// A client of both actors.
struct Client : AskingSide {
  explicit Client(const Limited& at)
      : AskingSide(at.server->endpoints()),
        optimizer(link->proxy<OptimizerInterface>(Destination::kOptimizer)) {
    ask_shard(pull_of(1024));  // the rows exist from now on
  }
  OptimizerActor optimizer;
};

size_t bytes_of(const auto& message) { return message.words().bytes().size(); }

TEST(Flow, LargeRequestsOfManyPeersArriveOneAfterAnotherAndAllAreAnswered) {
  Limited side({1 * kMiB, 1 * kMiB});
  constexpr uint64_t kClients = 3, kPushes = 6;
  std::vector<std::thread> threads;
  for (uint64_t c = 0; c < kClients; ++c)
    threads.emplace_back([&, c] {
      Client client(side);
      caf::scoped_actor self{client.system};
      for (uint64_t i = 0; i < kPushes; ++i) self->send(client.optimizer, push_of(c * kPushes + i, 1024));
      uint64_t answered = 0;
      self->receive_for(answered, kPushes)([](const Message<wire::PushReply>&) {});
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(side.flow->arriving()->most_taken(), bytes_of(push_of(0, 1024)))
      << "each is larger than the limit";
  EXPECT_EQ(side.flow->arriving()->taken(), 0);
}

TEST(Flow, AConnectionKeepsItsOwnLimit) {
  Limited side({1024 * kMiB, 1 * kMiB});
  Client client(side);
  caf::scoped_actor self{client.system};
  constexpr uint64_t kPushes = 40;
  for (uint64_t i = 0; i < kPushes; ++i) self->send(client.optimizer, push_of(i, 100));
  uint64_t answered = 0;
  self->receive_for(answered, kPushes)([](const Message<wire::PushReply>&) {});
  EXPECT_GE(side.flow->arriving()->most_taken(), bytes_of(push_of(0, 100)));
  EXPECT_LE(side.flow->arriving()->most_taken(), 1 * kMiB);
}

// It would take 64 answers of 4 MiB.
TEST(Flow, APeerThatDoesNotReadGetsNoMoreThanItsShareAndAllWhenItReads) {
  Limited side({.leaving_per_connection = 8 * kMiB});
  Client client(side);
  RawPeer slow(side.server->endpoints()[0]);
  slow.shake_hands();
  constexpr uint64_t kPulls = 64;
  for (uint64_t i = 1; i <= kPulls; ++i) slow.send(pull_of(1024), Destination::kShard, i);
  slow.send(pull_of(1), Destination::kShard, kPulls + 1);
  for (int i = 0; i < 20; ++i) client.ask_shard(pull_of(1024));  // others are served meanwhile
  const size_t reply = kDim * 4 * 1024 + 4096;
  EXPECT_LE(side.flow->most_leaving(), 8 * kMiB + 2 * reply);
  uint64_t whole = 0;
  while (whole < kPulls + 1) {
    const auto frame = slow.receive();
    ASSERT_TRUE(frame);
    whole += frame->header.chunk + 1 == frame->header.chunks;
  }
  EXPECT_LE(side.flow->most_leaving(), 8 * kMiB + 2 * reply);
}

TEST(Flow, BothWaysFullStillMoves) {
  Limited side({1 * kMiB, 1 * kMiB, 1 * kMiB, 1 * kMiB});
  std::vector<std::thread> threads;
  for (uint64_t c = 0; c < 2; ++c)
    threads.emplace_back([&, c] {
      Client client(side);
      caf::scoped_actor self{client.system};
      constexpr uint64_t kEach = 20;
      for (uint64_t i = 0; i < kEach; ++i) {
        self->send(client.optimizer, push_of(c * kEach + i, 800));
        self->send(client.shard, pull_of(1024));
      }
      uint64_t answered = 0;
      self->receive_for(answered, 2 * kEach)([](const Message<wire::PushReply>&) {},
                                             [](const Message<wire::PullReply>&) {});
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Flow, APeerThatStopsInTheMiddleOfAMessageStarvesNobodysSmallerOnes) {
  Limited side({1 * kMiB, 1 * kMiB});
  Client client(side);
  const std::string large = RawPeer::bytes_of(push_of(1, 500), Destination::kOptimizer, 1);  // one chunk
  RawPeer stuck(side.server->endpoints()[0]), second(side.server->endpoints()[0]);
  for (RawPeer* peer : {&stuck, &second}) {
    peer->shake_hands();
    peer->send(std::string_view(large).substr(0, large.size() / 2));
  }
  for (uint64_t i = 10; i < 20; ++i) {
    client.ask_shard(pull_of(1));
    caf::scoped_actor self{client.system};
    ask(self.ptr(), client.optimizer, push_of(i, 200));
  }
  // A larger one has its turn when they are gone.
  auto waiting = std::async(std::launch::async, [&] {
    caf::scoped_actor self{client.system};
    ask(self.ptr(), client.optimizer, push_of(20, 1024));
  });
  stuck.hang_up();
  second.hang_up();
  waiting.get();
  EXPECT_EQ(side.flow->arriving()->taken(), 0);
}

// Pulls of a version that is not there yet lie at the owner, larger than the limit, while the pushes that
// make the version come over the same connection.
TEST(Flow, PullsThatWaitForAVersionLetPushesPass) {
  Limited side({1 * kMiB, 1 * kMiB}, true);
  Client client(side);
  caf::scoped_actor self{client.system};
  const std::vector<int64_t> ints = keys(100'000);
  const TableSlices slices{1, KeysView{KeyKind::kInt64, ints, {}, {}}, 0, {}};
  for (int i = 0; i < 3; ++i)
    self->send(client.shard, make_pull(origin(1, 1), wire::ReadMode::EXACT, true, {&slices, 1}));
  ask(self.ptr(), client.optimizer, push_of(0, 1024));
  caf::scoped_actor master{side.system};
  ask(master.ptr(), side.owner.optimizer,
      make_message<wire::CommitRequest>([](wire::CommitRequest::Builder b) {
        b.setVersion(1);
        b.initMinibatches(1)[0].setAttempt(1);
        b.getMinibatches()[0].setWeight(1);
      }));
  uint64_t answered = 0;
  self->receive_for(
      answered, uint64_t{3})([](const Message<wire::PullReply>& m) { EXPECT_EQ(m.get().getVersion(), 1); });
}

TEST(Flow, LargeMessagesFollowOneAnotherAndSmallOnesPassBetween) {
  Limited side({});
  RawPeer peer(side.server->endpoints()[0]);
  peer.shake_hands();
  for (uint64_t i = 1; i <= 4; ++i) peer.send(pull_of(i % 2 == 0 ? 1 : 2000), Destination::kShard, i);
  std::optional<uint64_t> open;
  for (int whole = 0; whole < 4;) {
    const auto frame = peer.receive();
    ASSERT_TRUE(frame);
    const FrameHeader& h = frame->header;
    if (h.total > kSmallWords) {
      if (h.chunk == 0)
        EXPECT_FALSE(open) << "message " << h.correlation << " began in the middle of another";
      else
        EXPECT_EQ(open, h.correlation);
      open = h.correlation;
    }
    if (h.chunk + 1 < h.chunks) continue;
    ++whole;
    if (h.total > kSmallWords) open.reset();
  }
}

}  // namespace
}  // namespace embers
