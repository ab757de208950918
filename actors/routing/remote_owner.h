#pragma once

#include <string>
#include <vector>

#include "actors/message_types.h"
#include "actors/transport/client.h"

namespace embers {

// Proxies of an owner process that listens at `endpoints`. Rows go over a bulk connection; with
// `control_apart` (the master) its orders go over a control connection of their own, so that they never wait
// behind rows. `same_host` says whether Unix sockets among the endpoints can be reached: if so, they are
// tried first; otherwise they are left out.
OwnerHandles remote_owner(Transport& transport, const std::vector<std::string>& endpoints, bool same_host,
                          const HelloInfo& hello, std::chrono::duration<double> timeout, bool control_apart);

// Ends the connections of such proxies; what they were asked is answered with kUnavailable. Does nothing for
// local owners.
void drop_remote_owner(const OwnerHandles& owner, const std::string& why);

}  // namespace embers
