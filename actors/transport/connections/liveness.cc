#include "actors/transport/connections/liveness.h"

#include <fmt/format.h>

namespace embers {

Liveness::Liveness(Duration silence, Clock::time_point now)
    : silence_(silence), last_check_(now), heard_(now), message_moved_(now), taken_(now), arrived_(now) {}

std::string Liveness::after(const char* what) const { return fmt::format("{} {} s", what, silence_.count()); }

std::optional<std::string> Liveness::check(Clock::time_point now, const ConnectionProgress& p) {
  const bool held_up = now - last_check_ > 2 * interval();
  last_check_ = now;
  // Who reads nothing hears nothing, not even what the peer says about itself.
  const bool deaf = p.waits || held_up;
  if (deaf || p.received != seen_.received) heard_ = now;
  if (deaf || !p.in_message || p.message != seen_.message) message_moved_ = now;
  const bool all_taken = p.queued == 0 && !p.more;
  if (held_up || all_taken || peer_waits_ || p.sent != seen_.sent || p.queued != seen_.queued) taken_ = now;
  if (deaf) arrived_ = now;
  seen_ = p;
  if (is_late(heard_, now))
    return after(p.in_message ? "the peer stopped in the middle of a message, and was silent for"
                              : "no sign of life for");
  if (is_late(message_moved_, now))
    return after("the peer sent nothing more of a message that it began, for");
  if (is_late(taken_, now)) return after("the peer took no bytes for");
  return std::nullopt;
}

std::optional<std::string> Liveness::peer_says(Clock::time_point now, uint64_t received, bool waits,
                                               uint64_t sent) {
  peer_waits_ = waits;
  // A small read opens the window of TCP late: a socket may take nothing while the peer reads.
  if (received > peer_received_) taken_ = now;
  if (waits || received > peer_received_ || received >= awaited_) {
    arrived_ = now;
    if (received >= awaited_) awaited_ = sent;
  }
  peer_received_ = received;
  if (is_late(arrived_, now)) return after("what is sent to the peer did not reach it for");
  return std::nullopt;
}

}  // namespace embers
