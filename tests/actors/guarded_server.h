#pragma once

// A server of a job with a secret, and what its clients say in the handshake.
#include "actors/door/secret.h"
#include "tests/actors/transport_testing.h"
#include "tests/support/log_lines.h"
#include "tests/support/process.h"

namespace embers::testing_support {

inline const Secret kSecret("0123456789abcdef0123456789abcdef"),
    kOtherSecret("another secret, which is as long");
inline const Credentials kCredentials{kSecret, false}, kOtherCredentials{kOtherSecret, false};

inline Message<wire::Hello> hello_with(std::span<const std::byte> nonce,
                                       wire::Role role = wire::Role::WORKER) {
  return make_message<wire::Hello>([&](wire::Hello::Builder b) {
    b.setProtocol(kProtocol);
    b.setJob(7);
    b.setNumberFormat(kNumberFormat);
    b.setRole(role);
    b.setNonce(as_data(nonce));
  });
}

inline Message<wire::Proof> proof_of(const Secret& secret, const Message<wire::Hello>& hello,
                                     const Message<wire::Challenge>& challenge) {
  return make_message<wire::Proof>([&](wire::Proof::Builder b) {
    b.setMac(as_data(proof(secret, Prover::kClient, hello.words().bytes(), challenge.words().bytes())));
  });
}

inline Message<wire::Challenge> receive_challenge(RawPeer& peer) {
  auto in = peer.receive();
  if (!in) throw std::runtime_error("the server hung up instead of a challenge");
  return decode<wire::Challenge>(*in);
}

// Whatever happens to it, clients of the job are served and others get in.
class GuardedServer : public testing::Test {
 protected:
  // Each server logs on its own.
  explicit GuardedServer(Server::Options options = {7, false})
      : server_({"127.0.0.1:0"}, options, kCredentials) {}
  ~GuardedServer() override {
    EXPECT_EQ(good_.pull(5, 10), 5) << "another client noticed";
    EXPECT_EQ(AskingSide(server_.endpoints(), kWorker, 10s, kCredentials).pull(6, 10), 6) << "nobody gets in";
  }
  void expect_denied(const std::string& part, const Credentials& credentials) {
    AskingSide client(server_.endpoints(), kWorker, 10s, credentials);
    expect_error(ErrorCode::kDenied, {part}, [&] { client.pull(1, 1); });
  }
  void expect_logged_once(const std::string& part) {
    EXPECT_TRUE(wait_until([&] { return log_.count(part) > 0; })) << part;
    EXPECT_EQ(log_.count(part), 1u) << part;
  }

  LogLines log_;
  ServingSide server_;
  AskingSide good_{server_.endpoints(), kWorker, 10s, kCredentials};
};

}  // namespace embers::testing_support
