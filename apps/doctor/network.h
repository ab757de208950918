#pragma once

#include <string>
#include <vector>

#include "actors/probe/probe.h"
#include "apps/doctor/findings.h"

namespace embers {

// What a process of the job answers when it is asked about itself.
Message<wire::AboutReply> ask_about(caf::actor_system& system, const ProbeActor& peer);

// Round trip, clock and bandwidth between this host and a peer; `name` begins each check.
void examine_network(caf::actor_system& system, const ProbeActor& peer, const std::string& name,
                     bool same_host, Findings& findings);

// Whether the peer reaches this process, which listens at these endpoints.
void examine_way_back(caf::actor_system& system, const ProbeActor& peer, const std::string& name,
                      const std::vector<Endpoint>& here, Findings& findings);

// Judgements, without measuring.
Finding judge_round_trip(const std::string& name, double seconds);
Finding judge_clock(const std::string& name, double ahead, double uncertain);
Finding judge_bandwidth(const std::string& name, double to_peer, double from_peer, bool same_host);

}  // namespace embers
