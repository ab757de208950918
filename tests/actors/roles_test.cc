// What each role may ask.
#include "actors/door/roles.h"

#include <capnp/schema.h>

#include <atomic>

#include "tests/actors/transport_testing.h"
#include "tests/support/log_lines.h"
#include "tests/support/process.h"

namespace embers {
namespace {

using namespace testing_support;

// An actor that answers every request of its interface with an empty reply.
template <class... Requests>
auto spawn_fake(caf::actor_system& system, std::atomic<int>* asked, MessageList<Requests...>) {
  using Actor = typename Interface<MessageList<Requests...>>::Actor;
  return system.spawn(
      [](typename Actor::pointer, std::atomic<int>* asked) -> typename Actor::behavior_type {
        return {[asked](const Message<Requests>&) {
          ++*asked;
          return make_message<typename KindOf<Requests>::Reply>();
        }...};
      },
      asked);
}

template <class T>
Message<T> sample(wire::Role role) {
  return make_message<T>([&]([[maybe_unused]] typename T::Builder b) {
    if constexpr (std::is_same_v<T, wire::JoinRequest>) b.setRole(role);
  });
}

// Every kind of message as this role sends it, as a frame for this destination.
template <class... Messages>
std::map<Kind, std::string> frames(MessageList<Messages...>, wire::Role role, Destination destination) {
  return {{KindOf<Messages>::kind, RawPeer::bytes_of(sample<Messages>(role), destination, 1)}...};
}

std::vector<wire::Role> all_roles() {
  std::vector<wire::Role> roles;
  for (const auto role : capnp::Schema::from<wire::Role>().getEnumerants())
    roles.push_back(static_cast<wire::Role>(role.getOrdinal()));
  return roles;
}

class Roles : public testing::Test {
 protected:
  Roles() {
    serve<MasterRequests>(Destination::kMaster);
    serve<OptimizerRequests>(Destination::kOptimizer);
    serve<ShardRequests>(Destination::kShard);
    serve<ProbeRequests>(Destination::kProbe);
    server_.server->start();
  }
  ~Roles() override {
    server_.server.reset();
    server_.transport.stop();
    for (const caf::actor& actor : actors_) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  template <class Requests>
  void serve(Destination destination) {
    const auto actor = spawn_fake(server_.system, &asked_, Requests());
    actors_.push_back(caf::actor_cast<caf::actor>(actor));
    server_.server->serve<Interface<Requests>>(destination, actor);
  }

  struct Serving : OneSide {
    std::shared_ptr<Server> server = Server::listen(transport, {parse_endpoint("127.0.0.1:0")}, {7, false});
  };
  LogLines log_;
  std::atomic<int> asked_ = 0;
  Serving server_;
  std::vector<caf::actor> actors_;
};

TEST_F(Roles, AreRefusedEveryMessageThatIsNotTheirs) {
  constexpr Destination kAll[] = {Destination::kMaster, Destination::kOptimizer, Destination::kShard,
                                  Destination::kProbe};
  int allowed = 0;
  std::set<std::string> refusals;
  for (const wire::Role role : all_roles())
    for (const Destination destination : kAll)
      for (const auto& [kind, frame] : frames(AllMessages(), role, destination)) {
        if (is_of_connection(kind)) continue;  // which the transport itself takes from everybody
        const std::string what = fmt::format("{} sends {}", name(role), name(kind));
        const int before = asked_;
        RawPeer peer(server_.server->endpoints()[0]);
        peer.shake_hands(role);
        peer.send(frame);
        auto in = peer.receive();
        ASSERT_TRUE(in) << what;
        if (may_send(role, kind) && !in->error()) {
          EXPECT_EQ(asked_, before + 1) << what;
          ++allowed;
          continue;
        }
        EXPECT_EQ(asked_, before) << what;
        ASSERT_TRUE(in->error()) << what;
        try {
          throw_error_reply(*in);
        } catch (const Error& e) {
          EXPECT_EQ(name(e.code()), name(may_send(role, kind) ? ErrorCode::kBadFrame : ErrorCode::kDenied))
              << what;
          if (!may_send(role, kind)) {
            EXPECT_EQ(e.what(), fmt::format("the role {} may not send {}", name(role), name(kind)));
          }
        }
        if (!may_send(role, kind)) refusals.insert(what);
        EXPECT_FALSE(peer.receive()) << what << ", and the connection goes on";
      }
  int expected = 0;  // each request has one destination
  for (const wire::Role role : all_roles())
    for (const auto& [kind, frame] : frames(AllMessages(), role, Destination{}))
      expected += may_send(role, kind);
  EXPECT_EQ(allowed, expected);
  EXPECT_GT(refusals.size(), 100u);
  EXPECT_TRUE(wait_until([&] { return log_.count("may not send") >= refusals.size(); }));
  EXPECT_EQ(log_.count("may not send"), refusals.size())
      << "each is logged once, though it was sent to each destination";
}

TEST_F(Roles, AreNotChangedByAJoin) {
  using enum wire::Role;
  for (const wire::Role role : {WORKER, OWNER, READER})
    for (const auto claimed : {WORKER, OWNER, READER, ADMIN, MASTER, static_cast<wire::Role>(77)}) {
      RawPeer peer(server_.server->endpoints()[0]);
      peer.shake_hands(role);
      peer.send(sample<wire::JoinRequest>(claimed), Destination::kMaster, 1);
      const auto in = peer.receive();
      ASSERT_TRUE(in);
      EXPECT_EQ(in->error(), role != claimed) << name(role) << " as " << static_cast<int>(claimed);
    }
  EXPECT_EQ(asked_, 3);
}

TEST_F(Roles, AReaderCreatesNoRows) {
  for (const wire::Role role : {wire::Role::WORKER, wire::Role::READER})
    for (const bool create : {false, true}) {
      RawPeer peer(server_.server->endpoints()[0]);
      peer.shake_hands(role);
      peer.send(make_pull(origin(1), wire::ReadMode::LATEST, create, {}), Destination::kShard, 1);
      const auto in = peer.receive();
      ASSERT_TRUE(in);
      EXPECT_EQ(in->error(), role == wire::Role::READER && create);
    }
}

TEST_F(Roles, ThatNobodyKnowsAreRefused) {
  RawPeer peer(server_.server->endpoints()[0]);
  peer.send(RawPeer::hello(kProtocol, 7, kNumberFormat, static_cast<wire::Role>(42)), Destination{}, 0);
  const Error error = peer.receive_error();
  EXPECT_EQ(error.code(), ErrorCode::kMismatch);
  EXPECT_NE(std::string(error.what()).find("role 42 is unknown"), std::string::npos) << error.what();
}

TEST(ARole, ThatHasNothingToAskIsRefused) {
  ServingSide owner;  // serves pulls, restores and scans
  for (const wire::Role role : {wire::Role::OWNER, wire::Role::ADMIN}) {
    AskingSide client(owner.endpoints(), {7, 0, role});
    expect_error(ErrorCode::kDenied, {"has nothing to ask here", std::string(name(role))},
                 [&] { client.pull(1, 1); });
  }
}

}  // namespace
}  // namespace embers
