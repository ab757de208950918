#include "actors/transport/connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>

namespace embers {
namespace asio = boost::asio;
namespace {

constexpr size_t kMaxPartials = 64;    // messages of several chunks on their way at once
constexpr size_t kChunksPerWrite = 4;  // one gather write moves at most this many chunks
constexpr size_t kBuffersPerCall = 64;
constexpr size_t kSmallWords = (64 << 10) / 8;  // up to here the sender itself writes

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
          self->reject(Error(ErrorCode::kUnavailable, fmt::format("not enough memory for a message of {} MiB",
                                                                  self->header_.total >> 17)));
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
  if (in_flight_ < kMaxInFlight) return read_header();
  paused_ = true;
  if (in_flight_ < kMaxInFlight) resume();  // the last answer came before anyone could see the pause
}

// Reads on after a pause; any thread.
void Connection::resume() {
  if (paused_.exchange(false))
    loop_->post([self = shared_from_this()] {
      if (!self->closed_) self->read_header();
    });
}

// --- writing -------------------------------------------------------------------------------------

void Connection::send(OutFrame frame) {
  const bool small = frame.size <= kSmallWords;
  frame.header.total = static_cast<uint32_t>(frame.size);
  frame.header.chunks = static_cast<uint32_t>((frame.size + kChunkWords - 1) / kChunkWords);
  {
    const MutexLock lock(queue_mutex_);
    if (ended_) return;
    queue_.push_back({std::move(frame)});
    if (std::exchange(writing_, true)) return;
  }
  if (small)
    write();
  else
    loop_->post([self = shared_from_this()] { self->write(); });
}

// One gather write. The io thread writes what is left of it, and then the next one.
void Connection::write() {
  take_chunks();
  const size_t sent = write_now();
  if (sent < asio::buffer_size(buffers_))
    loop_->post([self = shared_from_this(), sent] { self->write_rest(sent); });
  else
    written();
}

void Connection::take_chunks() {
  const MutexLock lock(queue_mutex_);
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
}

// Bytes that the socket took at once. If something is wrong with it, the io thread finds out when it writes
// the rest.
size_t Connection::write_now() {
  const MutexLock lock(socket_mutex_);
  if (!socket_.is_open()) return 0;
  std::array<iovec, kBuffersPerCall> parts;
  size_t sent = 0;
  for (size_t begin = 0; begin < buffers_.size(); begin += kBuffersPerCall) {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = std::min(kBuffersPerCall, buffers_.size() - begin);
    size_t wanted = 0;
    for (size_t i = 0; i < message.msg_iovlen; ++i) {
      parts[i] = {const_cast<void*>(buffers_[begin + i].data()), buffers_[begin + i].size()};
      wanted += parts[i].iov_len;
    }
    ssize_t n = 0;
    do {
      n = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    sent += n > 0 ? static_cast<size_t>(n) : 0;
    if (n < static_cast<ssize_t>(wanted)) break;
  }
  return sent;
}

// On the io thread.
void Connection::write_rest(size_t sent) {
  if (closed_) return;
  std::vector<asio::const_buffer> rest;
  for (const auto& buffer : buffers_) {
    const size_t gone = std::min(sent, buffer.size());
    sent -= gone;
    if (gone < buffer.size()) rest.push_back(buffer + gone);
  }
  asio::async_write(socket_, rest, TransferAll{}, [self = shared_from_this()](auto e, size_t) {
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
  if (in_flight_ < kMaxInFlight) resume();
  const MutexLock lock(queue_mutex_);
  if (!queue_.empty()) return loop_->post([self = shared_from_this()] { self->write(); });
  writing_ = false;
  if (finishing_) loop_->post([self = shared_from_this()] { self->close(self->ending_); });
}

// --- the end -------------------------------------------------------------------------------------

void Connection::finish() {
  loop_->post([self = shared_from_this()] {
    if (self->closed_) return;
    {
      const MutexLock lock(self->queue_mutex_);
      self->finishing_ = true;
      if (!self->writing_) return self->close(self->ending_);
    }
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
  const bool finishing = [&] {
    const MutexLock lock(queue_mutex_);
    return finishing_;
  }();
  if (finishing) return close(ending_);  // the peer may hang up first; the reason known here counts
  close(Error(ErrorCode::kUnavailable, e == asio::error::eof ? "the connection was closed by the peer"
                                                             : "the connection broke: " + e.message()));
}

void Connection::close(const Error& why) {
  loop_->post([self = shared_from_this(), why] {
    if (self->closed_) return;
    self->closed_ = true;
    self->timer_.cancel();
    {
      const MutexLock lock(self->queue_mutex_);
      self->ended_ = true;
      self->queue_.clear();
    }
    boost::system::error_code ignored;
    self->socket_.shutdown(Socket::shutdown_both, ignored);
    {
      const MutexLock lock(self->socket_mutex_);
      self->socket_.close(ignored);
    }
    const auto on_close = std::move(self->on_close);
    self->on_frame = nullptr;
    self->on_close = nullptr;
    if (on_close) on_close(why);
  });
}

}  // namespace embers
