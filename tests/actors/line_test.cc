// Requests of a master that wait outside its mailbox.
#include "actors/frames/line.h"

#include <future>

#include "tests/actors/transport_testing.h"

namespace embers {
namespace {

using namespace testing_support;

constexpr size_t kMost = Line::kBatch * Line::kBatches;  // that go before any is taken up

InFrame numbered(uint64_t number) {
  InFrame frame;
  frame.header.correlation = number;
  return frame;
}

class Lines : public testing::Test {
 protected:
  // As a request that comes now: it goes at once, or waits.
  void come(uint64_t number) {
    InFrame frame = numbered(number);
    if (!line_.is_short()) return line_.wait({nullptr, std::move(frame)});
    go(std::move(frame));
  }
  void go(InFrame frame) {
    line_.go(frame);
    gone_.push_back(std::move(frame));
  }
  void take_turns() {
    for (auto next = line_.next(); !next.empty(); next = line_.next())
      for (HeldRequest& request : next) go(std::move(request.frame));
  }
  // The actor takes up what has gone so far.
  void take_up(bool answered = true) {
    for (; taken_up_ < gone_.size(); ++taken_up_) {
      auto& arrival = gone_[taken_up_].arrival;
      if (answered && arrival) arrival->settle();
      arrival = nullptr;
    }
  }

  int turns_ = 0;
  Line line_{[this] { ++turns_; }};
  std::deque<InFrame> gone_;
  size_t taken_up_ = 0;
};

TEST_F(Lines, SomeGoAndOthersWaitUntilTheseAreTakenUpInTheOrderInWhichTheyCame) {
  for (uint64_t number = 0; number < 3 * kMost; ++number) come(number);
  EXPECT_EQ(gone_.size(), kMost);
  take_turns();
  EXPECT_EQ(gone_.size(), kMost) << "nobody's turn";
  for (size_t gone = kMost; gone < 3 * kMost; gone = gone_.size()) {
    const int before = turns_;
    take_up();
    EXPECT_GT(turns_, before);
    EXPECT_FALSE(line_.is_short()) << "who comes now does not overtake";
    take_turns();
    EXPECT_EQ(gone_.size(), gone + kMost);
  }
  for (uint64_t number = 0; number < gone_.size(); ++number)
    EXPECT_EQ(gone_[number].header.correlation, number);
  take_up();
  EXPECT_TRUE(line_.is_short());
}

TEST_F(Lines, ARequestThatIsDroppedIsTakenUp) {
  for (uint64_t number = 0; number < 2 * kMost; ++number) come(number);
  take_up(false);
  take_turns();
  EXPECT_EQ(gone_.size(), 2 * kMost);
}

TEST_F(Lines, ARequestIsSettledAndThenDroppedOnce) {
  for (uint64_t number = 0; number < kMost; ++number) come(number);
  take_up();
  EXPECT_EQ(turns_, static_cast<int>(Line::kBatches));
}

// --- of a server ---------------------------------------------------------------------------------

// A master that is held up until it is let go, and answers everything with nothing. It notes the leases that
// LeaseRequests name, and the end of a peer as 0.
template <class... Requests>
MasterActor spawn_held_up(caf::actor_system& system, std::shared_future<void> go,
                          std::promise<std::vector<uint64_t>>* noted, MessageList<Requests...>) {
  struct Notes {
    std::vector<uint64_t> all;
  };
  return system.spawn(
      [noted](MasterActor::pointer self, std::shared_future<void> go) -> MasterActor::behavior_type {
        const auto notes = std::make_shared<Notes>();
        self->set_down_handler([=](caf::down_msg&) {
          notes->all.push_back(0);
          noted->set_value(notes->all);
        });
        const auto take = [=]<class T>(const Message<T>& m) {
          go.wait();
          if constexpr (std::is_same_v<T, wire::LeaseRequest>) {
            if (notes->all.empty()) self->monitor(self->current_sender()->address());
            notes->all.push_back(m.get().getReceived());
          }
          return make_message<typename KindOf<T>::Reply>();
        };
        return {[take](const Message<Requests>& m) { return take(m); }...};
      },
      std::move(go));
}

TEST(Line, WhatAPeerHasAskedComesBeforeItsEnd) {
  constexpr uint64_t kRequests = 3 * kMost;
  std::promise<void> go;
  std::promise<std::vector<uint64_t>> noted;
  OneSide side;
  const MasterActor master = spawn_held_up(side.system, go.get_future().share(), &noted, MasterRequests{});
  const auto server = Server::listen(side.transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
  server->serve<MasterInterface>(Destination::kMaster, master);
  server->start();
  {
    RawPeer peer(server->endpoints()[0]);
    peer.shake_hands(wire::Role::WORKER);
    for (uint64_t number = 1; number <= kRequests; ++number)
      peer.send(make_message<wire::LeaseRequest>([&](auto b) { b.setReceived(number); }),
                Destination::kMaster, number);
  }
  std::this_thread::sleep_for(200ms);  // the peer has gone
  go.set_value();
  auto all = noted.get_future();
  ASSERT_EQ(all.wait_for(20s), std::future_status::ready);
  const std::vector<uint64_t> seen = all.get();
  ASSERT_EQ(seen.size(), kRequests + 1);
  for (uint64_t number = 1; number <= kRequests; ++number) EXPECT_EQ(seen[number - 1], number);
  EXPECT_EQ(seen.back(), 0u);
  side.transport.stop();
  caf::anon_send_exit(master, caf::exit_reason::user_shutdown);
}

}  // namespace
}  // namespace embers
