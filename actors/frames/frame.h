#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "actors/message_types.h"
#include "base/errors.h"
#include "schema/messages/codec.h"
#include "schema/messages/message.h"
#include "schema/messages/received.h"

namespace embers {

// The header before every chunk on the wire, little-endian, 40 bytes:
//
//   magic      u32   "EMB1"
//   protocol   u16   kProtocol
//   flags      u16   bit 0: reply; bit 1: the payload is an ErrorReply; bit 2: the payload is a SharedPlace,
//   where the
//                    whole message is in memory that the sender shares with its peer (actors/shared_memory/)
//   kind       u16   Kind of the message
//   dest       u16   Destination of a request; a reply repeats its request's
//   chunk      u32   k: this is chunk k ...
//   chunks     u32   ... of n; every chunk but the last holds kChunkWords words
//   words      u32   words that follow in this chunk; 1 for a place
//   total      u32   words of the whole message
//   reserved   u32   0
//   correlation u64  chosen by the client; a reply repeats its request's
struct FrameHeader {
  uint32_t magic = kMagic;
  uint16_t protocol = static_cast<uint16_t>(kProtocol);
  uint16_t flags = 0;
  uint16_t kind = 0;
  uint16_t destination = 0;
  uint32_t chunk = 0;
  uint32_t chunks = 1;
  uint32_t words = 0;
  uint32_t total = 0;
  uint32_t reserved = 0;
  uint64_t correlation = 0;

  static constexpr uint32_t kMagic = 0x31424d45;
  static constexpr uint16_t kReply = 1;
  static constexpr uint16_t kError = 2;
  static constexpr uint16_t kShared = 4;
};
static_assert(sizeof(FrameHeader) == 40 && std::has_unique_object_representations_v<FrameHeader>);

inline constexpr size_t kChunkWords = size_t{2} << 17;  // 2 MiB

// Messages up to this size (64 KiB) travel between the chunks of a larger one. Larger ones travel one after
// another: once a connection has begun to read one, nothing that waits for room can come before its end.
inline constexpr size_t kSmallWords = size_t{64} << 7;

// Checks everything in a header that can be checked on its own; kBadFrame saying what is wrong, kMismatch for
// another protocol version. `max_words` bounds the message (small before the handshake).
void check(const FrameHeader& header, size_t max_words);

// Messages that the two ends of a connection send one another, whatever the role: no request, and no actor's.
constexpr bool is_of_connection(Kind kind) {
  return kind == Kind::kPing || kind == Kind::kShare || kind == Kind::kShareTaken;
}

// One whole message on its way to a connection. Shares the message's words: nothing is copied.
struct OutFrame {
  FrameHeader header;  // kind, destination, flags, correlation; the rest is set when it is sent
  std::shared_ptr<const void> owner;  // keeps the words alive
  const capnp::word* words = nullptr;
  size_t size = 0;
};

// One whole message that arrived.
struct InFrame {
  FrameHeader header;
  Words words;                                 // taken by the code that decodes them
  std::shared_ptr<Arrival> arrival = nullptr;  // of a request
  bool reply() const { return header.flags & FrameHeader::kReply; }
  bool error() const { return header.flags & FrameHeader::kError; }
  Kind kind() const { return static_cast<Kind>(header.kind); }
};

// kBadFrame for a reply: a client was asked nothing.
void check_is_request(const InFrame& frame);

template <class T>
OutFrame out_frame(const Message<T>& message, Destination destination, uint64_t correlation, uint16_t flags) {
  auto owner = std::make_shared<Message<T>>(message);
  OutFrame f;
  f.header.kind = static_cast<uint16_t>(KindOf<T>::kind);
  f.header.destination = static_cast<uint16_t>(destination);
  f.header.correlation = correlation;
  f.header.flags = flags;
  f.words = owner->words().data();
  f.size = owner->words().size();
  f.owner = std::move(owner);
  return f;
}

// The message of a frame that must hold a T; kBadFrame if it holds something else or is malformed. An
// ErrorReply is thrown as the Error it carries.
[[noreturn]] void throw_error_reply(InFrame& frame);
template <class T>
Message<T> decode(InFrame& frame) {
  if (frame.error()) throw_error_reply(frame);
  if (frame.kind() != KindOf<T>::kind)
    fail(ErrorCode::kBadFrame, "a message of kind {} arrived where {} was expected", frame.header.kind,
         name(KindOf<T>::kind));
  return received<T>(std::move(frame.words), std::move(frame.arrival));
}

}  // namespace embers
