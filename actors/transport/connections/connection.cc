#include "actors/transport/connections/connection.h"

#include <linux/sockios.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "schema/messages/message_form.h"

namespace embers {
namespace asio = boost::asio;
namespace {

constexpr size_t kWordsPerWrite = 4 * kChunkWords;  // one gather write moves hardly more of large messages
constexpr size_t kMostLarge = 32;                   // and at most this many of their chunks
constexpr size_t kBuffersPerCall = 64;

// Of a large message, as it trickles in from another host: fewer bytes do not wake the io thread up, and it
// takes that many at once.
constexpr size_t kLeastBulk = size_t{32} << 10, kMostBulk = size_t{256} << 10;

constexpr size_t kAtOnce = size_t{64} << 20;  // the default completion condition moves 64 KiB a call

bool is_ping(const FrameHeader& header) { return static_cast<Kind>(header.kind) == Kind::kPing; }

bool is_own(const FrameHeader& header) { return is_of_connection(static_cast<Kind>(header.kind)); }

}  // namespace

// Completion condition that counts what has arrived, as it arrives: on a slow link a chunk takes a while.
// Before each wait it says how much more is to come.
class Connection::CountsReceived {
 public:
  CountsReceived(Connection& connection, size_t all) : connection_(&connection), all_(all) {}
  size_t operator()(const boost::system::error_code& e, size_t bytes) const {
    connection_->received_ = connection_->received_before_ + bytes;
    connection_->await(all_ - bytes);
    return e ? 0 : kAtOnce;
  }

 private:
  Connection* connection_;
  size_t all_;
};

// A small request of the peer, of which nothing is counted: all of them share one.
class Connection::Arriving : public Arrival {
 public:
  explicit Arriving(std::weak_ptr<Connection> connection) : connection_(std::move(connection)) {}

  void settle() override {}
  bool has_room(const std::function<void()>& room) override {
    const auto connection = connection_.lock();
    return !connection || connection->has_room(room);
  }
  WordsMemoryPtr memory() override {
    const auto connection = connection_.lock();
    return connection && connection->sharing_ ? connection->sharing_->memory() : nullptr;
  }

 private:
  const std::weak_ptr<Connection> connection_;
};

// A large one, and its shares of what may arrive.
class Connection::ArrivingLarge final : public Arriving {
 public:
  ArrivingLarge(std::weak_ptr<Connection> connection, ByteBudget::Share here, ByteBudget::Share in_process)
      : Arriving(std::move(connection)), here_(std::move(here)), in_process_(std::move(in_process)) {}

  void settle() override {
    ByteBudget::Share here, in_process;  // given back when the lock is gone: others go on then
    const MutexLock lock(mutex_);
    here = std::move(here_);
    in_process = std::move(in_process_);
  }

 private:
  Mutex mutex_;
  ByteBudget::Share here_ ABSL_GUARDED_BY(mutex_), in_process_ ABSL_GUARDED_BY(mutex_);
};

Connection::Connection(std::shared_ptr<EventLoop> loop, std::shared_ptr<Flow> flow, Socket socket)
    : loop_(std::move(loop)),
      flow_(std::move(flow)),
      socket_(std::move(socket)),
      in_children_(socket_.native_handle()),
      arriving_(std::make_shared<ByteBudget>(flow_->limits().arriving_per_connection)),
      timer_(loop_->context) {}

void Connection::start() { read_header(); }

void Connection::set_handlers(std::function<void(InFrame)> frame, std::function<void(const Error&)> close) {
  // Posted: the handler that is being replaced may be running.
  loop_->post([self = shared_from_this(), frame = std::move(frame), close = std::move(close)]() mutable {
    if (self->closed_) return close(self->ending_);
    self->on_frame = std::move(frame);
    self->on_close = std::move(close);
  });
}

// A step of reading, on the io thread; what it throws is told to the peer.
template <class Step>
void Connection::reading(Step&& step) {
  if (closed_) return;
  try {
    step();
  } catch (const Error& error) {
    reject(error);
  } catch (const std::bad_alloc&) {
    reject(Error(ErrorCode::kUnavailable,
                 fmt::format("not enough memory for a message of {} MiB", header_.total >> 17)));
  }
}

// All of `to`, then `then`, a step of reading.
template <class Then>
void Connection::read(asio::mutable_buffer to, Then then) {
  asio::async_read(socket_, to, CountsReceived(*this, to.size()),
                   [self = shared_from_this(), then](auto e, size_t bytes) {
                     if (self->closed_) return;
                     self->received_ = self->received_before_ += bytes;
                     if (e) return self->fail_with(e);
                     self->reading(then);
                   });
}

// So many bytes are to come, or more. Where they trickle in, the socket wakes this thread up when there are
// many, or all of them.
void Connection::await(size_t bytes) {
  const int wanted = in_bulk_ && bytes >= kLeastBulk ? static_cast<int>(std::min(bytes, kMostBulk)) : 1;
  if (std::exchange(awaited_, wanted) != wanted)
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
}

// Bytes that have reached this host.
uint64_t Connection::arrived() const {
  int queued = 0;
  if (awaited_ > 1) ::ioctl(const_cast<Socket&>(socket_).native_handle(), SIOCINQ, &queued);
  return received_ + static_cast<uint64_t>(std::max(queued, 0));
}

// The next header. Posted where it is already here: whatever the message before it has posted comes first.
void Connection::read_header() {
  if (ahead_end_ - ahead_begin_ < sizeof header_) return read_ahead();
  loop_->post([self = shared_from_this()] { self->reading([&] { self->take_header(); }); });
}

// Where Asio notes down the read that is under way: in the connection itself, which the read touches anyway.
// With thousands of connections, memory of its own would have left the caches before the bytes come.
template <class T>
struct Connection::ReadMemory {
  using value_type = T;
  explicit ReadMemory(Connection* c) : connection(c) {}
  template <class U>
  ReadMemory(const ReadMemory<U>& other) : connection(other.connection) {}  // NOLINT: as allocators convert

  T* allocate(size_t count) {
    static_assert(sizeof(T) <= kReadRoom && alignof(T) <= alignof(std::max_align_t));
    if (count != 1) throw std::bad_alloc();
    return reinterpret_cast<T*>(connection->read_room_.data());
  }
  void deallocate(T*, size_t) {}
  template <class U>
  bool operator==(const ReadMemory<U>& other) const {
    return connection == other.connection;
  }

  Connection* connection;
};

// Its handler, which keeps the connection. There is one such read at a time.
class Connection::ReadAhead {
 public:
  using allocator_type = ReadMemory<std::byte>;
  explicit ReadAhead(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  allocator_type get_allocator() const { return allocator_type(connection_.get()); }
  void operator()(const boost::system::error_code& e, size_t bytes) { connection_->read_some(e, bytes); }

 private:
  std::shared_ptr<Connection> connection_;
};

// One call for a header and what follows it. It may be a few bytes, so these wake this thread up again.
void Connection::read_ahead() {
  await(1);
  std::copy(ahead_.begin() + ahead_begin_, ahead_.begin() + ahead_end_, ahead_.begin());
  ahead_end_ -= std::exchange(ahead_begin_, 0);
  socket_.async_receive(asio::buffer(ahead_.data() + ahead_end_, ahead_.size() - ahead_end_),
                        ReadAhead(shared_from_this()));
}

void Connection::read_some(const boost::system::error_code& e, size_t bytes) {
  if (closed_) return;
  received_ = received_before_ += bytes;
  ahead_end_ += bytes;
  if (e) return fail_with(e);
  if (ahead_end_ < sizeof header_) return read_ahead();
  reading([&] { take_header(); });
}

void Connection::take_header() {
  take_ahead(std::as_writable_bytes(std::span(&header_, 1)));
  check(header_, max_words_);
  const bool is_request = !(header_.flags & FrameHeader::kReply) && !is_own(header_);
  if (is_request && header_.chunk == 0) return admit();
  read_chunk(nullptr);
}

// As much of it as is here.
size_t Connection::take_ahead(std::span<std::byte> to) {
  const size_t bytes = std::min(to.size(), ahead_end_ - ahead_begin_);
  std::memcpy(to.data(), ahead_.data() + ahead_begin_, bytes);
  ahead_begin_ += bytes;
  return bytes;
}

// Whether one more request may be read; its bytes are another matter.
bool Connection::may_read() const {
  return in_flight_ < kMaxInFlight && leaving_ < flow_->limits().leaving_per_connection;
}

// A request is about to arrive: the only place where reading pauses.
void Connection::admit() {
  waits_ = true;
  if (!may_read()) {
    paused_ = true;
    if (may_read()) resume();  // the last answer left before anyone could see the pause
    return;
  }
  const size_t bytes = size_t{header_.total} * sizeof(capnp::word);
  if (header_.total <= kSmallWords) {
    if (!small_arrival_) small_arrival_ = std::make_shared<Arriving>(weak_from_this());
    return read_chunk(small_arrival_);
  }
  if (auto here = arriving_->take(bytes, then(&Connection::admit_to_process)))
    admit_to_process(std::move(*here));
}

void Connection::admit_to_process(ByteBudget::Share here) {
  const size_t bytes = size_t{header_.total} * sizeof(capnp::word);
  here_ = std::move(here);
  if (bytes <= kAlwaysBytes && arriving_->taken() == bytes)
    return admitted(flow_->arriving()->take_at_once(bytes));
  if (auto share = flow_->arriving()->take(bytes, then(&Connection::admitted))) admitted(std::move(*share));
}

void Connection::admitted(ByteBudget::Share in_process) {
  read_chunk(std::make_shared<ArrivingLarge>(weak_from_this(), std::move(here_), std::move(in_process)));
}

// Goes on with `next` once a share is granted, on the io thread.
ByteBudget::Granted Connection::then(void (Connection::*next)(ByteBudget::Share)) {
  return [weak = weak_from_this(), next](ByteBudget::Share share) {
    if (const auto self = weak.lock())
      self->loop_->post([self, next, share = std::move(share)]() mutable {
        self->reading([&] { ((*self).*next)(std::move(share)); });
      });
  };
}

void Connection::read_chunk(std::shared_ptr<Arrival> arrival) {
  waits_ = false;
  const auto same = [&](const FrameHeader& h) {
    return h.correlation == header_.correlation && ((h.flags ^ header_.flags) & FrameHeader::kReply) == 0;
  };
  if (header_.chunk == 0) {
    if (header_.total > kSmallWords && partial_)
      fail(ErrorCode::kBadFrame, "message {} begins in the middle of message {}", header_.correlation,
           partial_->header.correlation);
    current_ = {header_, {}, std::move(arrival)};
    if (header_.flags & FrameHeader::kShared) return read_place();
    current_.words = Words(header_.total);
  } else {
    if (!partial_ || !same(partial_->header) || partial_->header.chunk + 1 != header_.chunk ||
        partial_->header.total != header_.total)
      fail(ErrorCode::kBadFrame, "chunk {} of message {} is out of order", header_.chunk,
           header_.correlation);
    current_ = std::move(*partial_);
    current_.header.chunk = header_.chunk;
    partial_.reset();
  }
  capnp::word* place = current_.words.data() + size_t{header_.chunk} * kChunkWords;
  in_chunk_ = header_.chunks > 1;
  const auto bytes = std::as_writable_bytes(std::span(place, header_.words));
  const auto rest = bytes.subspan(take_ahead(bytes));
  if (rest.empty()) return chunk_complete();
  read(asio::buffer(rest.data(), rest.size()), [this] { chunk_complete(); });
}

// Where a message is that both processes share.
void Connection::read_place() {
  const auto take = [this] {
    if (!sharing_) fail(ErrorCode::kBadFrame, "nothing is shared with this peer");
    current_.words = sharing_->words(place_, header_.total);
    current_.header.flags &= static_cast<uint16_t>(~FrameHeader::kShared);
    chunk_complete();
  };
  const auto bytes = std::as_writable_bytes(std::span(&place_, 1));
  const auto rest = bytes.subspan(take_ahead(bytes));
  if (rest.empty()) return take();
  read(asio::buffer(rest.data(), rest.size()), take);
}

void Connection::chunk_complete() {
  if (std::exchange(in_chunk_, false)) message_received_ = received_;
  if (header_.chunk + 1 < header_.chunks) {
    partial_ = std::move(current_);
  } else if (liveness_ && is_own(header_)) {
    heard_own();
  } else {
    if (!current_.reply()) ++in_flight_;
    on_frame(std::move(current_));
  }
  if (!closed_) read_header();
}

// Reads on after a pause; any thread.
void Connection::resume() {
  if (paused_.exchange(false))
    loop_->post([self = shared_from_this()] { self->reading([&] { self->admit(); }); });
}

// --- writing -------------------------------------------------------------------------------------

void Connection::send(OutFrame frame) {
  const bool large = frame.size > kSmallWords;
  // Then the sender itself writes.
  const bool small = !large || (sharing_ && sharing_->reaches(frame));
  frame.header.total = static_cast<uint32_t>(frame.size);
  frame.header.chunks = static_cast<uint32_t>((frame.size + kChunkWords - 1) / kChunkWords);
  bool alone = false;
  {
    const MutexLock lock(queue_mutex_);
    if (ended_) return;
    const size_t bytes = frame.size * sizeof(capnp::word);
    leaving_ += bytes;
    flow_->leave(bytes);
    alone = !large && !writing_;
    if (large)
      large_.push_back({std::move(frame)});  // also if it is shared: there is an order among large ones
    else if (!alone)
      small_.push_back(std::move(frame));
    if (std::exchange(writing_, true)) return;
  }
  if (alone) {
    take_alone(std::move(frame));
    write_taken();
  } else if (small) {
    write();
  } else {
    loop_->post([self = shared_from_this()] { self->write(); });
  }
  if (large && sharing_ && sharing_->begin())
    loop_->post([self = shared_from_this()] { self->offer_memory(); });
}

// A reply of any size finds room if nothing else is on its way to this peer.
bool Connection::has_room(const std::function<void()>& room) {
  const auto is_there = [this] {
    return leaving_ == 0 || (leaving_ < flow_->limits().leaving_per_connection && flow_->has_room());
  };
  if (is_there()) return true;
  flow_->when_left(room);
  return is_there();
}

// One gather write. The io thread writes what is left of it, and then the next one.
void Connection::write() {
  take_chunks();
  write_taken();
}

void Connection::write_taken() {
  const size_t sent = write_now();
  if (sent < asio::buffer_size(buffers_))
    loop_->post([self = shared_from_this(), sent] { self->write_rest(sent); });
  else
    written();
}

// What nothing else waits before needs no queue. It has one chunk.
void Connection::take_alone(OutFrame frame) {
  busy_.clear();
  buffers_.clear();
  frame.header.words = frame.header.total;
  const OutFrame& part = busy_.emplace_back(Part{std::move(frame)}).frame;
  buffers_.push_back(asio::buffer(&part.header, sizeof part.header));
  buffers_.push_back(asio::buffer(part.words, part.size * sizeof(capnp::word)));
}

void Connection::take_chunks() {
  const MutexLock lock(queue_mutex_);
  busy_.clear();
  buffers_.clear();
  // Headers must not move once a buffer points at them.
  busy_.reserve(small_.size() + (large_.empty() ? 0 : kMostLarge));
  const auto take = [&](const OutFrame& frame, uint32_t chunk) {
    const size_t begin = size_t{chunk} * kChunkWords;
    busy_.push_back({frame});
    OutFrame& part = busy_.back().frame;
    part.header.chunk = chunk;
    part.header.words = static_cast<uint32_t>(std::min(kChunkWords, frame.size - begin));
    buffers_.push_back(asio::buffer(&part.header, sizeof part.header));
    buffers_.push_back(asio::buffer(frame.words + begin, size_t{part.header.words} * sizeof(capnp::word)));
    return size_t{part.header.words};
  };
  const auto lend = [&](const OutFrame& frame, SharedPlace place) {
    busy_.push_back({frame, place});
    Part& part = busy_.back();
    FrameHeader& header = part.frame.header;
    header.flags |= FrameHeader::kShared;
    header.chunks = header.words = 1;
    buffers_.push_back(asio::buffer(&header, sizeof header));
    buffers_.push_back(asio::buffer(&part.place, sizeof part.place));
  };
  for (; !small_.empty(); small_.pop_front()) take(small_.front(), 0);
  for (size_t words = 0, taken = 0; !large_.empty() && words < kWordsPerWrite && taken < kMostLarge;
       ++taken) {
    Outgoing& out = large_.front();
    if (const auto place = out.next_chunk == 0 && sharing_ ? sharing_->lend(out.frame) : std::nullopt) {
      lend(out.frame, *place);
      large_.pop_front();
      continue;
    }
    words += take(out.frame, out.next_chunk);
    if (++out.next_chunk == out.frame.header.chunks) large_.pop_front();
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
  sent_ += sent;
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
  const auto counts = [this, before = sent_.load()](const boost::system::error_code& e, size_t bytes) {
    sent_ = before + bytes;
    return e ? 0 : kAtOnce;
  };
  asio::async_write(socket_, rest, counts, [self = shared_from_this(), counts](auto e, size_t bytes) {
    if (self->closed_) return;
    counts(e, bytes);
    if (e) return self->fail_with(e);
    self->written();
  });
}

void Connection::written() {
  size_t bytes = 0;
  for (const auto& [chunk, place] : busy_) {
    const FrameHeader& header = chunk.header;
    const bool whole = header.flags & FrameHeader::kShared;
    bytes += size_t{whole ? header.total : header.words} * sizeof(capnp::word);
    if ((header.flags & FrameHeader::kReply) && header.chunk + 1 == header.chunks && in_flight_ > 0)
      --in_flight_;
    if (is_ping(header)) ping_waits_ = false;
  }
  busy_.clear();
  bool more = false, finishing = false;
  {
    const MutexLock lock(queue_mutex_);
    if (ended_) bytes = 0;  // close() has counted them
    leaving_ -= bytes;
    more = leaving_ > 0;
    writing_ = more;
    finishing = finishing_;
  }
  flow_->left(bytes);
  if (may_read()) resume();
  if (more)
    loop_->post([self = shared_from_this()] { self->write(); });
  else if (finishing)
    loop_->post([self = shared_from_this()] { self->close(self->ending_); });
}

// --- liveness ------------------------------------------------------------------------------------

void Connection::watch(Liveness::Duration silence) {
  if (closed_) return;
  liveness_.emplace(silence, Liveness::Clock::now());
  const auto interval = std::chrono::duration_cast<Liveness::Clock::duration>(liveness_->interval());
  loop_->schedule.every(interval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    return self && self->look();
  });
}

// Whether to look again.
bool Connection::look() {
  if (closed_) return false;
  if (const auto why = liveness_->check(Liveness::Clock::now(), progress())) {
    cut(*why);
    return false;
  }
  if (is_ping_due()) ping();
  sent_before_ = sent_;
  return true;
}

// Whatever is sent is a sign of life, so every other ping can be saved where there is something else; not
// more, since only pings say what has been received.
bool Connection::is_ping_due() {
  skipped_ping_ = !skipped_ping_ && sent_ != sent_before_ && !waits_ && !said_waits_;
  return !skipped_ping_;
}

ConnectionProgress Connection::progress() {
  ConnectionProgress p;
  p.received = arrived();
  p.waits = waits_;
  p.in_message = in_chunk_ || partial_.has_value();
  p.message = in_chunk_ ? p.received : message_received_;
  p.sent = sent_;
  p.more = leaving_ > 0;
  int queued = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &queued) == 0) p.queued = static_cast<uint64_t>(queued);
  return p;
}

// One at a time: where nothing is written for a while, no more than one waits.
void Connection::ping() {
  if (ping_waits_.exchange(true)) return;
  said_waits_ = waits_;
  thread_local MessageForm<wire::Ping> form;  // thousands go out in a second
  form.root().setReceived(arrived());
  form.root().setWaits(waits_);
  send(out_frame(form.message(), Destination{}, 0, 0));
}

void Connection::heard_ping() {
  const auto ping = decode<wire::Ping>(current_);
  decoding(Kind::kPing, [&] {
    const auto why =
        liveness_->peer_says(Liveness::Clock::now(), ping.get().getReceived(), ping.get().getWaits(), sent_);
    if (why) cut(*why);
  });
}

void Connection::offer_memory() {
  if (closed_) return;
  if (const auto offer = sharing_->offer()) send(out_frame(*offer, Destination{}, 0, 0));
}

// A message of the connection at the other end.
void Connection::heard_own() {
  if (is_ping(header_)) return heard_ping();
  if (current_.kind() == Kind::kShareTaken) {
    const auto answer = decode<wire::ShareTaken>(current_);
    if (!sharing_) fail(ErrorCode::kBadFrame, "nothing is shared with this peer");
    return decoding(Kind::kShareTaken, [&] { sharing_->taken(answer.get().getTaken()); });
  }
  const auto offer = decode<wire::Share>(current_);
  const auto answer = decoding(Kind::kShare, [&] {
    return sharing_ ? sharing_->take(offer.get()) : make_message<wire::ShareTaken>();
  });
  send(out_frame(answer, Destination{}, 0, 0));
}

// The peer is told, if it can be: it may then connect again at once.
void Connection::cut(const std::string& why) {
  spdlog::debug("cutting a connection: {}", why);
  send(out_frame(make_error(ErrorCode::kTimeout, "the peer cut the connection: " + why), Destination{}, 0,
                 FrameHeader::kReply | FrameHeader::kError));
  close(Error(ErrorCode::kTimeout, why));
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
    self->here_ = {};
    self->partial_.reset();
    self->current_ = {};
    size_t unsent = 0;
    {
      const MutexLock lock(self->queue_mutex_);
      self->ended_ = true;
      self->small_.clear();
      self->large_.clear();
      unsent = self->leaving_.exchange(0);
    }
    self->flow_->left(unsent);
    boost::system::error_code ignored;
    self->socket_.shutdown(Socket::shutdown_both, ignored);
    {
      const MutexLock lock(self->socket_mutex_);
      self->in_children_.let_go();
      self->socket_.close(ignored);
    }
    const auto on_close = std::move(self->on_close);
    self->on_frame = nullptr;
    self->on_close = nullptr;
    if (on_close) on_close(why);
  });
}

}  // namespace embers
