#pragma once

#include <cstring>
#include <vector>

#include "actors/frames/frame.h"

namespace embers::testing_support {

using Bytes = std::vector<std::byte>;

// What a connection writes for a frame of one chunk: the header, then all words.
inline Bytes bytes_of(const OutFrame& frame) {
  FrameHeader header = frame.header;
  header.words = header.total = static_cast<uint32_t>(frame.size);
  Bytes bytes(sizeof header + frame.size * sizeof(capnp::word));
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, frame.words, bytes.size() - sizeof header);
  return bytes;
}

// What a connection makes of these bytes.
inline InFrame frame_of(const Bytes& bytes, std::shared_ptr<Arrival> arrival = nullptr) {
  InFrame frame{.header = {}, .words = {}, .arrival = std::move(arrival)};
  std::memcpy(static_cast<void*>(&frame.header), bytes.data(), sizeof frame.header);
  check(frame.header, kMaxMessageWords);
  frame.words = Words(frame.header.total);
  std::memcpy(static_cast<void*>(frame.words.data()), bytes.data() + sizeof frame.header,
              frame.words.bytes().size());
  return frame;
}

// The frame's kind, or its error: for traces.
inline std::string text_of(const Bytes& bytes) {
  InFrame frame = frame_of(bytes);
  if (!frame.error()) return std::string(name(frame.kind()));
  try {
    throw_error_reply(frame);
  } catch (const Error& error) {
    return fmt::format("error: {}", error.what());
  }
}

}  // namespace embers::testing_support
