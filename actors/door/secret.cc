#include "actors/door/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/errors.h"

namespace embers {
namespace {

void append(std::string& to, std::span<const std::byte> bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void append_with_length(std::string& to, std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = bytes.size();
  append(to, std::as_bytes(std::span(&length, 1)));
  append(to, bytes);
}

}  // namespace

Secret::Secret(std::string bytes) : bytes_(std::move(bytes)) {
  if (bytes_.size() < kFewest || bytes_.size() > kMost)
    fail(ErrorCode::kInvalid, "a secret has {} to {} bytes, not {}: make one with 'openssl rand -hex 32'",
         kFewest, kMost, bytes_.size());
}

Secret Secret::make() {
  std::string digits;
  for (const std::byte b : make_nonce()) digits += fmt::format("{:02x}", static_cast<unsigned>(b));
  return Secret(digits);
}

Nonce make_nonce() {
  Nonce nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) != 1)
    fail(ErrorCode::kInternal, "the system gives no random bytes");
  return nonce;
}

Mac proof(const Secret& secret, Prover prover, std::span<const std::byte> hello,
          std::span<const std::byte> challenge) {
  std::string text = prover == Prover::kClient ? "embers handshake, client" : "embers handshake, server";
  text += '\0';
  append_with_length(text, hello);
  append_with_length(text, challenge);
  Mac mac;
  unsigned size = 0;
  if (HMAC(EVP_sha256(), secret.bytes().data(), static_cast<int>(secret.bytes().size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(mac.data()), &size) == nullptr ||
      size != mac.size())
    fail(ErrorCode::kInternal, "libcrypto computes no HMAC-SHA256");
  return mac;
}

bool is_equal(const Mac& mac, std::span<const std::byte> bytes) {
  return bytes.size() == mac.size() && CRYPTO_memcmp(mac.data(), bytes.data(), mac.size()) == 0;
}

}  // namespace embers
