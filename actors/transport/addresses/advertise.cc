#include "actors/transport/addresses/advertise.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

#include "actors/transport/addresses/local_address.h"
#include "base/errors.h"

namespace embers {
namespace {

// Of documentation networks (RFC 5737, RFC 3849): what matters is the way out of this host, and nothing is
// sent.
constexpr char kSomewhere[] = "192.0.2.1", kSomewhere6[] = "2001:db8::1", kSomePort[] = "9";

uint16_t parse_port(const std::string& text, const std::string& whole, const char* option) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > 65535)
    fail(ErrorCode::kInvalid, "{} {}: '{}' is not a port (1 to 65535)", option, whole, text);
  return static_cast<uint16_t>(number);
}

void add(std::vector<Endpoint>& to, Endpoint endpoint) {
  if (std::find(to.begin(), to.end(), endpoint) == to.end()) to.push_back(std::move(endpoint));
}

// The numbers of this host's networks, of one family: no loopback, and none that needs the name of a device.
std::vector<std::string> network_addresses(int family) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  std::vector<std::string> found;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const void* number = &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
    if (family == AF_INET6) {
      const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&v6)) continue;
      number = &v6;
    }
    char text[INET6_ADDRSTRLEN];
    if (::inet_ntop(family, number, text, sizeof text) != nullptr) found.push_back(text);
  }
  return found;
}

// By which others reach this host, the likeliest first.
std::vector<std::string> addresses_of_this_host(bool ipv6, const std::vector<Endpoint>& towards) {
  for (const Endpoint& peer : towards)
    if (!is_on_this_host(peer)) {
      const std::string here = local_address_towards(peer.host, peer.port);
      if (!is_on_this_host({false, here, ""})) return {here};
    }
  std::vector<std::string> found;
  const auto of_family = [&](int family, const char* somewhere) {
    const std::string way_out = local_address_towards(somewhere, kSomePort);
    std::vector<std::string> all = network_addresses(family);
    std::stable_partition(all.begin(), all.end(), [&](const std::string& a) { return a == way_out; });
    found.insert(found.end(), all.begin(), all.end());
  };
  of_family(AF_INET, kSomewhere);
  if (ipv6) of_family(AF_INET6, kSomewhere6);
  if (found.empty()) found.push_back("127.0.0.1");  // it has no network
  return found;
}

}  // namespace

std::string PortRange::text() const { return fmt::format("{}-{}", first, last); }

PortRange parse_port_range(const std::string& text) {
  if (text.empty()) return {};
  const size_t dash = text.find('-');
  const uint16_t first = parse_port(text.substr(0, dash), text, "--port-range");
  const uint16_t last =
      dash == std::string::npos ? first : parse_port(text.substr(dash + 1), text, "--port-range");
  if (last < first) fail(ErrorCode::kInvalid, "--port-range {}: its end comes before its begin", text);
  return {first, last};
}

Advertise parse_advertise(const std::string& text) {
  if (text.empty()) return {};
  if (text.starts_with("unix:"))
    fail(ErrorCode::kInvalid, "--advertise {}: give HOST or HOST:PORT; Unix sockets are always advertised",
         text);
  const bool is_ipv6 = text.front() == '[' || std::count(text.begin(), text.end(), ':') > 1;
  const size_t colon =
      is_ipv6 && text.back() != ']' && text.front() != '[' ? std::string::npos : text.rfind(':');
  const bool has_port = colon != std::string::npos && text.back() != ']';
  std::string host = has_port ? text.substr(0, colon) : text;
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty()) fail(ErrorCode::kInvalid, "--advertise {}: there is no host", text);
  if (host.find_first_of("[]") != std::string::npos)
    fail(ErrorCode::kInvalid, "--advertise {}: give HOST, HOST:PORT, [IPv6] or [IPv6]:PORT", text);
  if (is_wildcard({false, host, ""}))
    fail(ErrorCode::kInvalid,
         "--advertise {}: this stands for every address of a host; give one that others reach", text);
  if (!has_port) return {host, ""};
  return {host, std::to_string(parse_port(text.substr(colon + 1), text, "--advertise"))};
}

std::vector<Endpoint> advertised(const std::vector<Endpoint>& listening, const Advertise& given,
                                 const std::vector<Endpoint>& towards) {
  std::vector<Endpoint> found;
  size_t tcp = 0;
  for (const Endpoint& endpoint : listening) {
    if (endpoint.unix_socket) {
      const bool has_file = !endpoint.host.starts_with('@');
      add(found, {true, has_file ? std::filesystem::absolute(endpoint.host).string() : endpoint.host, ""});
    } else if (++tcp; !given.host.empty()) {
      add(found, {false, given.host, given.port.empty() ? endpoint.port : given.port});
    } else if (is_wildcard(endpoint)) {
      for (const std::string& host :
           addresses_of_this_host(endpoint.host.find(':') != std::string::npos, towards))
        add(found, {false, host, endpoint.port});
    } else {
      add(found, endpoint);
    }
  }
  if (!given.host.empty() && tcp == 0)
    fail(ErrorCode::kInvalid,
         "--advertise {}: this process listens at no TCP address that it could stand for; give --listen "
         "HOST:PORT",
         given.host);
  if (!given.port.empty() && tcp > 1)
    fail(ErrorCode::kInvalid,
         "--advertise {}:{}: one port cannot stand for {} addresses to listen on: leave the port out",
         given.host, given.port, tcp);
  return found;
}

}  // namespace embers
