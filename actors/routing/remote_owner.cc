#include "actors/routing/remote_owner.h"

#include <algorithm>

namespace embers {

OwnerHandles remote_owner(Transport& transport, const std::vector<std::string>& texts, bool same_host,
                          const HelloInfo& hello, std::chrono::duration<double> timeout, bool control_apart) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : texts) {
    Endpoint e = parse_endpoint(text);
    if (same_host || !e.unix_socket) endpoints.push_back(std::move(e));
  }
  std::stable_partition(endpoints.begin(), endpoints.end(), [](const Endpoint& e) { return e.unix_socket; });
  if (endpoints.empty())
    fail(ErrorCode::kInvalid, "this host can reach none of the addresses that an owner process gave");
  const auto link = [&] {
    const auto opened = Link::open(transport, endpoints, hello, timeout);
    opened->keep();
    opened->expect_listener();  // it has listened before it joined
    return opened;
  };
  const auto bulk = link();
  const auto control = control_apart ? link() : bulk;
  return {control->proxy<OptimizerInterface>(Destination::kOptimizer),
          bulk->proxy<ShardInterface>(Destination::kShard)};
}

void drop_remote_owner(const OwnerHandles& owner, const std::string& why) {
  const Error reason(ErrorCode::kUnavailable, why);
  for (const auto& actor : {caf::actor_cast<caf::strong_actor_ptr>(owner.optimizer),
                            caf::actor_cast<caf::strong_actor_ptr>(owner.shard)})
    if (auto* proxy = dynamic_cast<Proxy*>(actor->get())) proxy->end_link(reason);
}

}  // namespace embers
