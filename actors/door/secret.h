#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace embers {

// What the processes of a job know and nobody else does. Empty: the job has none.
//
// *Thread safety*: const.
class Secret {
 public:
  static constexpr size_t kFewest = 32, kMost = 4096;  // bytes

  Secret() = default;
  // kInvalid when there are fewer or more bytes; the message does not repeat them.
  explicit Secret(std::string bytes);
  // A new one of 256 random bits, in hexadecimal digits.
  static Secret make();

  explicit operator bool() const { return !bytes_.empty(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// What a process shows to its peers, and demands of them.
struct Credentials {
  Secret secret;
  bool insecure = false;  // without a secret, let connections go beyond this host all the same
};

inline constexpr size_t kNonceBytes = 32, kMacBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;
using Mac = std::array<std::byte, kMacBytes>;

// Random; no other connection has the same one.
Nonce make_nonce();

// Who proves that it knows the secret: a client's proof is worth nothing as a server's, and the other way
// round.
enum class Prover { kClient, kServer };

// The HMAC-SHA256 under the secret of
//
//   "embers handshake, client" or "embers handshake, server", 0x00,
//   length of the Hello (u64, little-endian), the Hello's words as sent,
//   length of the Challenge (u64, little-endian), the Challenge's words as sent
Mac proof(const Secret& secret, Prover prover, std::span<const std::byte> hello,
          std::span<const std::byte> challenge);

// Whether these bytes are this MAC, in a time that does not depend on the bytes.
bool is_equal(const Mac& mac, std::span<const std::byte> bytes);

}  // namespace embers
