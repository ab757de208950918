#include "actors/door/secret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/errors.h"

namespace embers {
namespace {

const Secret kKnownSecret("0123456789abcdef0123456789abcdef");

std::string in_hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

TEST(Proof, IsTheHmacThatItsHeaderDescribes) {  // computed with Python's hmac module
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const auto mac = [&](Prover prover, const char* hello, const char* challenge) {
    return in_hexadecimal(proof(kKnownSecret, prover, bytes(hello), bytes(challenge)));
  };
  EXPECT_EQ(mac(Prover::kClient, "hello", "challenge"),
            "f2716adfac72f064bbaa35aadbae972852e14109f002ccf9257eced8d9b6b511");
  EXPECT_EQ(mac(Prover::kServer, "hello", "challenge"),
            "38a27c51dfcd782db020f94b1b5e78287b272ec1b9f70ef44237852e925c248d");
  EXPECT_NE(mac(Prover::kClient, "helloc", "hallenge"), mac(Prover::kClient, "hello", "challenge"));
}

TEST(Proof, IsEqualOnlyToItself) {
  const Mac mac = proof(kKnownSecret, Prover::kClient, {}, {});
  Mac other = mac;
  EXPECT_TRUE(is_equal(mac, other));
  for (size_t i = 0; i < other.size(); ++i) {
    other = mac;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(is_equal(mac, other)) << i;
  }
  EXPECT_FALSE(is_equal(mac, std::span(mac).first(31)));
  EXPECT_FALSE(is_equal(mac, {}));
}

TEST(ASecret, HasAUsefulLengthAndIsNotRepeatedInErrors) {
  for (const size_t length : {size_t{1}, Secret::kFewest - 1, Secret::kMost + 1}) {
    const std::string text(length, 'q');
    try {
      Secret secret(text);
      ADD_FAILURE() << length;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalid);
      EXPECT_EQ(std::string(e.what()).find("qqq"), std::string::npos) << e.what();
    }
  }
  EXPECT_FALSE(Secret());
  const Secret made = Secret::make();
  EXPECT_EQ(made.bytes().size(), 64u);
  EXPECT_NE(made.bytes(), Secret::make().bytes());
  EXPECT_NE(make_nonce(), make_nonce());
}

}  // namespace
}  // namespace embers
