#include "apps/doctor/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "actors/ask.h"
#include "apps/process/joining.h"
#include "base/host.h"

namespace embers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(15);  // for one answer
constexpr int kTrips = 20;
constexpr uint32_t kLarge = 4 << 20;  // bytes
constexpr double kLongEnough = 0.4;   // seconds of sending one way
constexpr int kMostParts = 64;

constexpr double kSlowTrip = 0.005, kClockOff = 1;  // seconds
constexpr double kSlowLink = 200e6;                 // bits a second

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <class T>
Message<typename KindOf<T>::Reply> ask_in_time(caf::actor_system& system, const ProbeActor& peer,
                                               const Message<T>& question) {
  caf::scoped_actor self{system};
  return receive_answer<Message<typename KindOf<T>::Reply>>(self.ptr(),
                                                            self->request(peer, kPatience, question));
}

Message<wire::ProbeRequest> probe(uint32_t sent, uint32_t wanted) {
  return make_message<wire::ProbeRequest>([&](wire::ProbeRequest::Builder b) {
    b.initPayload(sent);
    b.setWanted(wanted);
  });
}

struct Trips {
  double median = 0, least = 0;  // seconds
  double ahead = 0;              // of the peer's clock, in the shortest trip
};

Trips measure_trips(caf::actor_system& system, const ProbeActor& peer) {
  Trips trips;
  std::vector<double> all;
  for (int i = 0; i < kTrips; ++i) {
    const int64_t clock = now_ns();
    const auto begin = Clock::now();
    const auto reply = ask_in_time(system, peer, probe(0, 0));
    const double seconds = seconds_since(begin);
    if (all.empty() || seconds < trips.least) {
      trips.least = seconds;
      trips.ahead = 1e-9 * static_cast<double>(reply.get().getClock() - clock) - seconds / 2;
    }
    all.push_back(seconds);
  }
  std::nth_element(all.begin(), all.begin() + kTrips / 2, all.end());
  trips.median = all[kTrips / 2];
  return trips;
}

// Bits a second.
double measure_rate(caf::actor_system& system, const ProbeActor& peer, bool to_peer) {
  const auto part = probe(to_peer ? kLarge : 0, to_peer ? 0 : kLarge);
  ask_in_time(system, peer, part);  // a connection begins slowly
  const auto begin = Clock::now();
  int parts = 0;
  while (parts < kMostParts && seconds_since(begin) < kLongEnough) {
    ask_in_time(system, peer, part);
    ++parts;
  }
  return 8.0 * kLarge * parts / seconds_since(begin);
}

}  // namespace

Message<wire::AboutReply> ask_about(caf::actor_system& system, const ProbeActor& peer) {
  return ask_in_time(system, peer, make_message<wire::AboutRequest>());
}

Finding judge_round_trip(const std::string& name, double seconds) {
  Finding f{name + ": round trip", Finding::Verdict::kOk, fmt::format("{:.2f} ms", seconds * 1e3), "", {}};
  f.figures = {{"seconds", seconds}};
  if (seconds <= kSlowTrip) return f;
  f.verdict = Finding::Verdict::kWarning;
  f.advice = "each minibatch waits for it: raise training.prefetch, or bring the hosts closer together";
  return f;
}

Finding judge_clock(const std::string& name, double ahead, double uncertain) {
  const bool agree = std::abs(ahead) <= uncertain;
  Finding f{name + ": clock",
            Finding::Verdict::kOk,
            agree ? fmt::format("agrees to {:.1f} ms", uncertain * 1e3)
                  : fmt::format("{:.1f} ms {}", std::abs(ahead) * 1e3, ahead > 0 ? "ahead" : "behind"),
            "",
            {}};
  f.figures = {{"seconds_ahead", ahead}, {"uncertain_seconds", uncertain}};
  if (std::abs(ahead) <= kClockOff + uncertain) return f;
  f.verdict = Finding::Verdict::kWarning;
  f.advice =
      "the job does not depend on it, but log lines of hosts cannot be compared: let NTP set the clocks";
  return f;
}

Finding judge_bandwidth(const std::string& name, double to_peer, double from_peer, bool same_host) {
  Finding f{name + ": bandwidth",
            Finding::Verdict::kOk,
            fmt::format("{:.0f} Mbit/s to it, {:.0f} from it", to_peer / 1e6, from_peer / 1e6),
            "",
            {}};
  f.figures = {{"bits_per_second_to", to_peer}, {"bits_per_second_from", from_peer}};
  if (same_host || std::min(to_peer, from_peer) >= kSlowLink) return f;
  f.verdict = Finding::Verdict::kWarning;
  f.advice =
      "rows and gradients of each minibatch go this way: check the link, or set storage.wire_dtype to a type "
      "of 16 bits";
  return f;
}

void examine_network(caf::actor_system& system, const ProbeActor& peer, const std::string& name,
                     bool same_host, Findings& findings) {
  try {
    const Trips trips = measure_trips(system, peer);
    findings.add(judge_round_trip(name, trips.median));
    findings.add(judge_clock(name, trips.ahead, trips.least / 2));
  } catch (const Error& e) {
    return findings.failed(name + ": round trip", e.what());
  }
  try {
    findings.add(judge_bandwidth(name, measure_rate(system, peer, true), measure_rate(system, peer, false),
                                 same_host));
  } catch (const Error& e) {
    const bool silent = e.code() == ErrorCode::kTimeout;
    findings.failed(
        name + ": bandwidth", silent ? "small messages get through, but large ones do not" : e.what(),
        silent ? "something between the hosts drops large packets: check that the MTU is the same on the "
                 "whole way, and that ICMP is let through"
               : "");
  }
}

void examine_way_back(caf::actor_system& system, const ProbeActor& peer, const std::string& name,
                      const std::vector<Endpoint>& here, Findings& findings) {
  const auto addresses = texts(here);
  const std::string check = name + ": way back";
  try {
    const auto reply =
        ask_in_time(system, peer, make_message<wire::CallRequest>([&](wire::CallRequest::Builder b) {
                      write_texts(b.initEndpoints(addresses.size()), addresses);
                    }));
    const std::string error = reply.get().getError();
    if (error.empty())
      return findings.ok(check, fmt::format("it reaches this host at {}", fmt::join(addresses, " ")),
                         {{"endpoints", addresses}});
    findings.add(
        {check,
         Finding::Verdict::kFailed,
         error,
         fmt::format("workers may run here, but shards may not: open the ports that shards on {} listen on "
                     "(--port-range A-B), or give the address by which others reach it (--advertise)",
                     host_name()),
         {{"endpoints", addresses}}});
  } catch (const Error& e) {
    findings.failed(check, e.what());
  }
}

}  // namespace embers
