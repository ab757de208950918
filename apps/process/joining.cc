#include "apps/process/joining.h"

#include <fmt/format.h>

#include "apps/process/runtime.h"

namespace embers {

std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& texts) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : texts) endpoints.push_back(parse_endpoint(text));
  return endpoints;
}

std::vector<std::string> texts(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> out;
  for (const Endpoint& e : endpoints) out.push_back(e.text());
  return out;
}

MasterLink reach_master(Transport& transport, const JoinOptions& options) {
  return reach_master(
      transport,
      ReachOptions{options.master, std::chrono::duration<double>(options.connect_timeout), options.set});
}

void end_member(const std::optional<Error>& error) {
  if (error) fmt::print(stderr, "embers: error: {}\n", error->what());
  end_process(error ? exit_status(error->code()) : 0);
}

}  // namespace embers
