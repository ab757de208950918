// Where others are told that a process listens.
#include "actors/transport/addresses/advertise.h"

#include <gtest/gtest.h>

#include "actors/transport/addresses/endpoint.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

std::vector<std::string> texts(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> all;
  for (const Endpoint& e : endpoints) all.push_back(e.text());
  return all;
}
std::vector<std::string> reached(const std::vector<std::string>& listening, const std::string& given) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : listening) endpoints.push_back(parse_endpoint(text));
  return texts(advertised(endpoints, parse_advertise(given)));
}
using Texts = std::vector<std::string>;

TEST(Endpoint, AnAddressThatIsNoneIsRefused) {
  for (const char* const text : {"", "host", ":7700", "[::1", "[::1]", "[]:7700", "host:65536", "unix:"})
    expect_error(ErrorCode::kInvalid, {"address '", text}, [&] { parse_endpoint(text); });
  EXPECT_EQ(parse_endpoint("[::1]:7700").text(), "[::1]:7700");
}

TEST(Advertise, IsWhatAProcessListensOnUnlessToldOtherwise) {
  EXPECT_EQ(reached({"10.0.0.1:7700", "unix:@name", "unix:/run/s"}, ""),
            (Texts{"10.0.0.1:7700", "unix:@name", "unix:/run/s"}));
}

TEST(Advertise, TakesTheHostThatIsGivenAndThePort) {
  EXPECT_EQ(reached({"0.0.0.0:7700", "unix:@name"}, "gate"), (Texts{"gate:7700", "unix:@name"}));
  EXPECT_EQ(reached({"0.0.0.0:7700"}, "gate:80"), Texts{"gate:80"});
  EXPECT_EQ(reached({"0.0.0.0:7700"}, "2001:db8::1"), Texts{"[2001:db8::1]:7700"});
  EXPECT_EQ(reached({"0.0.0.0:7700"}, "[2001:db8::1]"), Texts{"[2001:db8::1]:7700"});
  EXPECT_EQ(reached({"0.0.0.0:7700"}, "[2001:db8::1]:80"), Texts{"[2001:db8::1]:80"});
  EXPECT_EQ(reached({"10.0.0.1:1", "10.0.0.2:2"}, "gate"), (Texts{"gate:1", "gate:2"}));
}

TEST(Advertise, NeverNamesEveryAddress) {
  for (const char* const all : {"0.0.0.0:7700", "[::]:7700"})
    for (const Endpoint& endpoint : advertised({parse_endpoint(all)}, {})) {
      EXPECT_FALSE(is_wildcard(endpoint)) << endpoint.text();
      EXPECT_EQ(endpoint.port, "7700");
    }
}

TEST(Advertise, RefusesWhatNobodyCouldUse) {
  const auto refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    expect_error(ErrorCode::kInvalid, parts, [&] { reached({"0.0.0.0:7700"}, text); });
  };
  refused("0.0.0.0", {"--advertise 0.0.0.0", "every address"});
  refused("[::]:7700", {"every address"});
  refused(":7700", {"no host"});
  for (const std::string text : {"[::1", "::1]", "[::1:80", "gate]:80"})
    refused(text, {"--advertise " + text, "[IPv6]:PORT"});
  refused("[]:80", {"no host"});
  refused("gate:0", {"'0' is not a port"});
  refused("gate:http", {"'http' is not a port"});
  refused("unix:/run/s", {"--advertise unix:/run/s", "HOST:PORT"});
  expect_error(ErrorCode::kInvalid, {"listens at no TCP address"}, [] { reached({"unix:@name"}, "gate"); });
  expect_error(ErrorCode::kInvalid, {"gate:80", "2 addresses"}, [] {
    reached({"10.0.0.1:1", "10.0.0.2:2"}, "gate:80");
  });
}

TEST(PortRange, HasABeginAndAnEnd) {
  EXPECT_TRUE(parse_port_range("").any());
  EXPECT_EQ(parse_port_range("7701-7720").text(), "7701-7720");
  EXPECT_EQ(parse_port_range("7701").text(), "7701-7701");
  for (const char* const bad : {"0-10", "7720-7701", "1-65536", "a-b", "-", "7-", "7701-7720-7730"})
    expect_error(ErrorCode::kInvalid, {"--port-range " + std::string(bad)}, [&] { parse_port_range(bad); });
}

}  // namespace
}  // namespace embers
