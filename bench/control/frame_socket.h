#pragma once

#include <netinet/in.h>

#include <functional>
#include <optional>
#include <vector>

#include "actors/door/secret.h"
#include "actors/frames/frame.h"

namespace embers {

// A client's end of a connection to a master, without Asio, CAF or threads, so that thousands of them take
// little of the machine that the master is measured on. On the wire it is what actors/transport/ is: the same
// handshake with the job's secret, the same frames. Frames of more than one chunk are not understood.
//
// *Thread safety*: none.
class FrameSocket {
 public:
  // What has arrived, in place: valid until the function that it is given to returns.
  struct Frame {
    const FrameHeader* header = nullptr;
    kj::ArrayPtr<const capnp::word> words;
    Kind kind() const { return static_cast<Kind>(header->kind); }
  };

  FrameSocket() = default;
  ~FrameSocket() { close(); }
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  // Begins to connect and to shake hands. kInternal if no socket can be had.
  void connect(const sockaddr_in& to, wire::Role role, const Secret& secret);
  void close();
  int fd() const { return fd_; }  // -1: closed
  bool welcomed() const { return silence_ > 0; }
  double silence() const { return silence_; }      // seconds, as the welcome says
  uint64_t received() const { return received_; }  // bytes
  bool said_hello() const { return said_hello_; }
  bool has_unsent() const { return !unsent_.empty(); }  // until the next writable()

  // Sends what the socket takes at once, and keeps the rest.
  template <class T>
  void send(const Message<T>& message, uint64_t correlation) {
    FrameHeader h;
    h.kind = static_cast<uint16_t>(KindOf<T>::kind);
    h.destination = welcomed() ? static_cast<uint16_t>(Destination::kMaster) : 0;
    h.correlation = correlation;
    send(h, message.words().array());
  }
  // The socket is connected, or takes bytes again. Throws kUnavailable when no connection could be made.
  void writable();
  // Reads what is there, and gives each frame that comes after the welcome to `on_frame`. Throws kUnavailable
  // when the peer has closed the connection, and what the peer says when it refuses it.
  void readable(const std::function<void(const Frame&)>& on_frame);

 private:
  void send(FrameHeader header, kj::ArrayPtr<const capnp::word> words);
  void shake_hands(const Frame& frame);

  int fd_ = -1;
  const Secret* secret_ = nullptr;
  Message<wire::Hello> hello_;  // until it is sent, or there is a challenge
  bool said_hello_ = false;
  double silence_ = 0;
  uint64_t received_ = 0;
  std::vector<std::byte> unsent_, rest_;  // rest_: of a frame that has not arrived as a whole
};

// The error that a frame of this kind holds.
Error read_error(const FrameSocket::Frame& frame);

// Gives the root of a frame's message, which must be a T, to `use`.
template <class T, class Use>
void read_root(const FrameSocket::Frame& frame, Use&& use) {
  capnp::FlatArrayMessageReader reader(frame.words);
  use(reader.getRoot<T>());
}

}  // namespace embers
