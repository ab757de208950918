#include "actors/frames/frame.h"

namespace embers {

void check(const FrameHeader& h, size_t max_words) {
  if (h.magic != FrameHeader::kMagic)
    fail(ErrorCode::kBadFrame, "magic number {:08x} is not that of embers", h.magic);
  if (h.protocol != kProtocol)
    fail(ErrorCode::kMismatch,
         "the peer speaks protocol {}, this process {}: install the same embers on all hosts", h.protocol,
         kProtocol);
  if (name(static_cast<Kind>(h.kind)).empty())
    fail(ErrorCode::kBadFrame, "message kind {} is unknown", h.kind);
  if (h.total == 0 || h.total > max_words)
    fail(ErrorCode::kBadFrame, "a message has {} words, but 1 to {} are allowed", h.total, max_words);
  if (h.flags & FrameHeader::kShared) {
    if (h.chunk != 0 || h.chunks != 1 || h.words != 1 || h.total <= kSmallWords)
      fail(ErrorCode::kBadFrame, "{} words in chunk {} of {} are no place of a message of {} words", h.words,
           h.chunk, h.chunks, h.total);
    return;
  }
  const size_t chunks = (size_t{h.total} + kChunkWords - 1) / kChunkWords;
  if (h.chunks != chunks || h.chunk >= chunks)
    fail(ErrorCode::kBadFrame, "chunk {} of {} does not fit a message of {} words", h.chunk, h.chunks,
         h.total);
  const size_t words = h.chunk + 1 < chunks ? kChunkWords : h.total - (chunks - 1) * kChunkWords;
  if (h.words != words)
    fail(ErrorCode::kBadFrame, "{} words do not fit chunk {} of {}", h.words, h.chunk, h.chunks);
}

void check_is_request(const InFrame& frame) {
  if (frame.reply() || frame.error())
    fail(ErrorCode::kBadFrame, "a reply came from a client that was asked nothing");
}

void throw_error_reply(InFrame& frame) {
  frame.header.flags &= static_cast<uint16_t>(~FrameHeader::kError);
  const auto message = decode<wire::ErrorReply>(frame);
  decoding(Kind::kErrorReply,
           [&] { throw Error(error_code(message.get().getCode()), message.get().getMessage()); });
  __builtin_unreachable();
}

}  // namespace embers
