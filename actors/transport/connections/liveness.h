#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace embers {

// What a connection has done by some moment.
struct ConnectionProgress {
  uint64_t received = 0;    // bytes read from the socket
  bool waits = false;       // for room (flow.h): nothing is read
  bool in_message = false;  // a message of several chunks has begun to arrive, and is not whole
  uint64_t message = 0;     // `received` when the last byte of such a message arrived
  uint64_t sent = 0;        // bytes given to the socket
  uint64_t queued = 0;      // of these, still in this host's socket
  bool more = false;        // bytes wait to be given to it
};

// Whether the peer of a connection is still there and can be reached, in both directions. Each side sends a
// Ping (schema/handshake.capnp) at every interval(), or at every other one where it has sent something else,
// which says how much it has received. A connection is cut
// when, for `silence`, one of these holds:
//
//   - nothing arrives;
//   - a large message stopped in its middle, whatever else arrives: it holds a share of the limits on bytes;
//   - the socket takes no bytes, and the peer says neither that it waits for room nor that it received more;
//   - bytes are taken, but the peer keeps saying that it has not received them.
//
// What counts is progress: a message may take any time as long as some bytes of it move. Plain arithmetic;
// moments come from the caller.
class Liveness {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::duration<double>;

  Liveness(Duration silence, Clock::time_point now);

  Duration interval() const { return silence_ / 4; }

  // To be called at every interval. Why the connection is to be cut, if it is. A call that comes late proves
  // that this process itself was held up: then nobody is blamed for what did not happen meanwhile.
  std::optional<std::string> check(Clock::time_point now, const ConnectionProgress& progress);

  // The peer has said that it received so many bytes, and whether it waits for room; so far `sent` were given
  // to the socket. As check().
  std::optional<std::string> peer_says(Clock::time_point now, uint64_t received, bool waits, uint64_t sent);

 private:
  bool is_late(Clock::time_point since, Clock::time_point now) const { return now - since >= silence_; }
  std::string after(const char* what) const;

  const Duration silence_;
  ConnectionProgress seen_;
  Clock::time_point last_check_;
  Clock::time_point heard_, message_moved_, taken_, arrived_;  // when this was last as it should be
  uint64_t peer_received_ = 0;
  uint64_t awaited_ = 0;  // what had been sent at arrived_: all of it must be received next
  bool peer_waits_ = false;
};

}  // namespace embers
