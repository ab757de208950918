#include "apps/process/joining.h"

#include <fmt/format.h>

#include "actors/ask.h"
#include "actors/transport/client.h"
#include "apps/process/runtime.h"
#include "base/log/standard_error.h"

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
  const auto link = Link::open(transport, {parse_endpoint(options.master)}, {},
                               std::chrono::duration<double>(options.connect_timeout));
  MasterLink master;
  master.actor = link->proxy<MasterInterface>(Destination::kMaster);
  caf::scoped_actor self{transport.system()};
  const auto reply = ask(self.ptr(), master.actor, make_message<wire::JobRequest>());
  decoding(Kind::kJobReply, [&] {
    const auto r = reply.get();
    job::JobText text{r.getPath(), r.getText(), read_texts(r.getOverrides())};
    text.overrides.insert(text.overrides.end(), options.set.begin(), options.set.end());
    master.run = r.getJob();
    master.index_dir = r.getIndexDir();
    master.job = job::parse_job(std::move(text));
  });
  return master;
}

void end_member(const std::optional<Error>& error) {
  if (error) say_error(error->what());
  end_process(error ? exit_status(error->code()) : 0);
}

}  // namespace embers
