#include "actors/transport/connection.h"

namespace embers {
namespace asio = boost::asio;
namespace {

constexpr size_t kMaxPartials = 64;    // messages of several chunks on their way at once
constexpr size_t kChunksPerWrite = 4;  // one gather write moves at most this many chunks

// The default completion condition moves 64 KiB a call.
struct TransferAll {
  size_t operator()(const boost::system::error_code& e, size_t) const { return e ? 0 : size_t{64} << 20; }
};

}  // namespace

Connection::Connection(std::shared_ptr<EventLoop> loop, Socket socket)
    : loop_(std::move(loop)), socket_(std::move(socket)), timer_(loop_->context) {}

void Connection::start() { read_header(); }

void Connection::set_handlers(std::function<void(InFrame)> frame, std::function<void(const Error&)> close) {
  // Posted: the handler that is being replaced may be running.
  loop_->post([self = shared_from_this(), frame = std::move(frame), close = std::move(close)]() mutable {
    if (self->closed_) return close(self->ending_);
    self->on_frame = std::move(frame);
    self->on_close = std::move(close);
  });
}

void Connection::read_header() {
  asio::async_read(
      socket_, asio::buffer(&header_, sizeof header_), [self = shared_from_this()](auto e, size_t) {
        if (self->closed_) return;
        if (e) return self->fail_with(e);
        try {
          check(self->header_, self->max_words_);
          self->read_chunk();
        } catch (const Error& error) {
          self->reject(error);
        } catch (const std::bad_alloc&) {
          self->reject(Error(ErrorCode::kUnavailable,
                             fmt::format("no memory for a message of {} MiB", self->header_.total >> 17)));
        }
      });
}

void Connection::read_chunk() {
  const uint64_t id = header_.correlation << 1 | (header_.flags & FrameHeader::kReply);
  if (header_.chunk == 0) {
    if (partial_.contains(id)) fail(ErrorCode::kBadFrame, "message {} begins twice", header_.correlation);
    if (partial_.size() >= kMaxPartials)
      fail(ErrorCode::kBadFrame, "more than {} unfinished messages", kMaxPartials);
    current_ = {header_, std::make_shared<Words>(header_.total)};
  } else {
    const auto known = partial_.find(id);
    if (known == partial_.end() || known->second.header.chunk + 1 != header_.chunk ||
        known->second.header.total != header_.total)
      fail(ErrorCode::kBadFrame, "chunk {} of message {} is out of order", header_.chunk,
           header_.correlation);
    current_ = std::move(known->second);
    current_.header.chunk = header_.chunk;
    partial_.erase(known);
  }
  capnp::word* place = current_.words->data() + size_t{header_.chunk} * kChunkWords;
  asio::async_read(socket_, asio::buffer(place, size_t{header_.words} * sizeof(capnp::word)), TransferAll{},
                   [self = shared_from_this()](auto e, size_t) {
                     if (self->closed_) return;
                     if (e) return self->fail_with(e);
                     try {
                       self->chunk_complete();
                     } catch (const Error& error) {
                       self->reject(error);
                     }
                   });
}

void Connection::chunk_complete() {
  if (header_.chunk + 1 < header_.chunks) {
    partial_.emplace(header_.correlation << 1 | (header_.flags & FrameHeader::kReply), std::move(current_));
  } else {
    if (!current_.reply()) ++in_flight_;
    on_frame(std::move(current_));
  }
  if (closed_) return;
  paused_ = in_flight_ >= kMaxInFlight;
  if (!paused_) read_header();
}

void Connection::send(OutFrame frame) {
  loop_->post([self = shared_from_this(), frame = std::move(frame)]() mutable {
    if (self->closed_) return;
    frame.header.total = static_cast<uint32_t>(frame.size);
    frame.header.chunks = static_cast<uint32_t>((frame.size + kChunkWords - 1) / kChunkWords);
    self->queue_.push_back({std::move(frame)});
    if (!self->writing_) self->write_some();
  });
}

void Connection::write_some() {
  busy_.clear();
  buffers_.clear();
  size_t chunks = 0;
  // Headers must not move once a buffer points at them.
  busy_.reserve(queue_.size() + kChunksPerWrite);
  for (size_t left = queue_.size(); left > 0 && chunks < kChunksPerWrite; --left) {
    Outgoing out = std::move(queue_.front());
    queue_.pop_front();
    const size_t begin = size_t{out.next_chunk} * kChunkWords;
    OutFrame& chunk = busy_.emplace_back(out.frame);
    chunk.header.chunk = out.next_chunk++;
    chunk.header.words = static_cast<uint32_t>(std::min(kChunkWords, out.frame.size - begin));
    buffers_.push_back(asio::buffer(&chunk.header, sizeof chunk.header));
    buffers_.push_back(
        asio::buffer(out.frame.words + begin, size_t{chunk.header.words} * sizeof(capnp::word)));
    if (chunk.header.words == kChunkWords) ++chunks;
    if (out.next_chunk < out.frame.header.chunks) queue_.push_back(std::move(out));
  }
  writing_ = true;
  asio::async_write(socket_, buffers_, TransferAll{}, [self = shared_from_this()](auto e, size_t) {
    if (self->closed_) return;
    if (e) return self->fail_with(e);
    self->written();
  });
}

void Connection::written() {
  for (const OutFrame& chunk : busy_)
    if ((chunk.header.flags & FrameHeader::kReply) && chunk.header.chunk + 1 == chunk.header.chunks &&
        in_flight_ > 0)
      --in_flight_;
  busy_.clear();
  writing_ = false;
  if (paused_ && in_flight_ < kMaxInFlight) {
    paused_ = false;
    read_header();
  }
  if (!queue_.empty())
    write_some();
  else if (finishing_)
    close(ending_);
}

void Connection::finish() {
  loop_->post([self = shared_from_this()] {
    if (self->closed_) return;
    self->finishing_ = true;
    if (self->queue_.empty() && !self->writing_) return self->close(self->ending_);
    self->timer_.expires_after(std::chrono::seconds(kFinishSeconds));
    self->timer_.async_wait([self](auto e) {
      if (!e) self->close(self->ending_);
    });
  });
}

void Connection::reject(const Error& why) {
  ending_ = why;
  send(out_frame(make_error(why.code(), why.what()), Destination{}, 0,
                 FrameHeader::kReply | FrameHeader::kError));
  finish();
}

void Connection::fail_with(const boost::system::error_code& e) {
  if (finishing_)
    return close(ending_);  // the peer may be quicker to hang up; the reason is the one known here
  close(Error(ErrorCode::kUnavailable, e == asio::error::eof ? "the connection was closed by the peer"
                                                             : "the connection broke: " + e.message()));
}

void Connection::close(const Error& why) {
  loop_->post([self = shared_from_this(), why] {
    if (self->closed_) return;
    self->closed_ = true;
    self->timer_.cancel();
    boost::system::error_code ignored;
    self->socket_.shutdown(Socket::shutdown_both, ignored);
    self->socket_.close(ignored);
    const auto on_close = std::move(self->on_close);
    self->on_frame = nullptr;
    self->on_close = nullptr;
    if (on_close) on_close(why);
  });
}

}  // namespace embers
