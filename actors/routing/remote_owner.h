#pragma once

#include <string>
#include <vector>

#include "actors/message_types.h"
#include "actors/transport/client.h"

namespace embers {

// Proxies of an owner process, `name` in messages, that listens at `endpoints`. Rows go over a bulk
// connection; with `control_apart` (the master) its orders go over a control connection of their own, so that
// they never wait behind rows. `same_host` says whether the process is on this host: if so, Unix sockets
// among the endpoints are tried first; otherwise they are left out, and so are addresses of the loopback.
// kInvalid if nothing is left.
OwnerHandles remote_owner(Transport& transport, const std::string& name,
                          const std::vector<std::string>& endpoints, bool same_host, const HelloInfo& hello,
                          std::chrono::duration<double> timeout, bool control_apart);

// Ends the connections of such proxies; what they were asked is answered with kUnavailable. Does nothing for
// local owners.
void drop_remote_owner(const OwnerHandles& owner, const std::string& why);

}  // namespace embers
