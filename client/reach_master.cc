#include "client/reach_master.h"

#include <optional>

#include "actors/errors.h"
#include "actors/routing/remote_owner.h"
#include "actors/transport/client.h"
#include "base/host.h"

namespace embers {

MasterLink reach_master(Transport& transport, const ReachOptions& options) {
  const auto link = Link::open(transport, {parse_endpoint(options.master)}, {}, options.connect_timeout);
  MasterLink master;
  master.actor = link->proxy<MasterInterface>(Destination::kMaster);
  caf::scoped_actor self{transport.system()};
  Message<wire::JobReply> reply;
  std::optional<Error> error;
  self->request(master.actor, options.patience, make_message<wire::JobRequest>())
      .receive([&](const Message<wire::JobReply>& m) { reply = m; },
               [&](caf::error& e) { error = from_caf(e); });
  if (error && error->code() == ErrorCode::kTimeout)
    fail(
        ErrorCode::kTimeout,
        "the master at {} accepted a connection, but does not say what its job is: check that the process is "
        "not stopped, or wait longer",
        options.master);
  if (error) throw Error(*error);
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

void connect_over(Transport& transport, const MasterLink& master, const std::string& address,
                  std::chrono::duration<double> timeout, SessionConfig& config) {
  config.run = master.run;
  config.master = master.actor;
  config.master_name = "the master at " + address;
  config.host = host_name();
  config.boot_id = boot_id();
  config.connect_owner = [&transport, run = master.run, here = config.boot_id, timeout](
                             size_t, const std::vector<std::string>& endpoints, const std::string& there,
                             uint64_t incarnation) {
    return remote_owner(transport, endpoints, !here.empty() && here == there, {run, incarnation}, timeout,
                        false);
  };
  config.drop_owner = [](const OwnerHandles& owner) {
    drop_remote_owner(owner, "the shard has moved to another process");
  };
}

}  // namespace embers
