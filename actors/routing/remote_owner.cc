#include "actors/routing/remote_owner.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/host.h"

namespace embers {

OwnerHandles remote_owner(Transport& transport, const std::string& name,
                          const std::vector<std::string>& texts, bool same_host, const HelloInfo& hello,
                          std::chrono::duration<double> timeout, bool control_apart) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : texts) {
    Endpoint e = parse_endpoint(text);
    if (same_host || !is_on_this_host(e)) endpoints.push_back(std::move(e));
  }
  std::stable_partition(endpoints.begin(), endpoints.end(), [](const Endpoint& e) { return e.unix_socket; });
  if (endpoints.empty())
    fail(ErrorCode::kInvalid,
         "{} listens where only its own host reaches it ({}), and this is {}: give its process the master's "
         "address "
         "as other hosts know it (--master), or let it listen there (--listen 0.0.0.0:0, --advertise)",
         name, fmt::join(texts, " "), host_name());
  for (const Endpoint& endpoint : endpoints) transport.check_guarded(endpoint, "connect to");
  std::vector<std::string> tcp;
  for (const Endpoint& e : endpoints)
    if (!e.unix_socket) tcp.push_back(e.text());
  const std::string peer = tcp.empty() ? name : fmt::format("{} at {}", name, fmt::join(tcp, " or "));
  const auto link = [&] {
    const auto opened = Link::open(
        transport, peer, [endpoints] { return endpoints; }, hello, timeout);
    opened->keep();
    opened->expect_listener();  // it has listened before it joined
    return opened;
  };
  const auto bulk = link();
  const auto control = control_apart ? link() : bulk;
  return {control->proxy<OptimizerInterface>(Destination::kOptimizer),
          bulk->proxy<ShardInterface>(Destination::kShard),
          endpoints.front().unix_socket ? KeysSent::kAsTheyAre : KeysSent::kPacked};
}

void drop_remote_owner(const OwnerHandles& owner, const std::string& why) {
  const Error reason(ErrorCode::kUnavailable, why);
  for (const auto& actor : {caf::actor_cast<caf::strong_actor_ptr>(owner.optimizer),
                            caf::actor_cast<caf::strong_actor_ptr>(owner.shard)})
    if (auto* proxy = dynamic_cast<Proxy*>(actor->get())) proxy->end_link(reason);
}

}  // namespace embers
