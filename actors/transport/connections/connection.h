#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/frames/frame_connection.h"
#include "actors/transport/connections/event_loop.h"
#include "actors/transport/connections/flow.h"
#include "actors/transport/connections/liveness.h"
#include "actors/transport/connections/sharing.h"
#include "base/forks.h"
#include "base/mutex.h"

namespace embers {

// One socket that carries frames both ways. Lives on its io_context, which one thread runs. That thread
// reads, and writes large frames, so that an actor with rows to send goes on with its next request meanwhile;
// a small frame is written by the thread that sends it, unless another thread is writing, and costs no
// wake-up. What the socket does not take at once is left to the io thread.
//
// *Thread safety*: send() and close() from any thread; everything else on the io thread.
// Invariants: (1) messages of more than kSmallWords go one after another, smaller ones between their chunks,
// so that a small message never waits behind a large one; (2) after on_close nothing is called any
// more; (3) before a request is read, there is room for it: at most kMaxInFlight requests of the peer are
// unanswered, and the bytes of requests and answers are within the limits of flow.h. Until there is room,
// nothing is read, so that the peer's own queue fills. Replies are always read: this process asked for them.
class Connection final : public FrameConnection, public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  static constexpr size_t kMaxInFlight = 256;
  static constexpr int kFinishSeconds = 2;
  static constexpr size_t kHandshakeWords = 128;  // of a message of the handshake: 1 KiB
  // A header and 448 bytes: a lease, a done, a heartbeat. What is read after it is aligned as its message is.
  static constexpr size_t kReadAhead = sizeof(FrameHeader) + 448;
  static constexpr size_t kReadRoom = 256;  // what Asio notes down about one read

  Connection(std::shared_ptr<EventLoop> loop, std::shared_ptr<Flow> flow, Socket socket);

  // Set before start(), called on the io thread. An Error that on_frame throws is told to the peer and ends
  // the connection, as does a frame that fails its checks.
  std::function<void(InFrame)> on_frame;
  std::function<void(const Error& why)> on_close;

  void start();
  void send(OutFrame frame) override;
  // Sends what is queued, then ends the connection, after kFinishSeconds at the latest.
  void finish() override;
  // Tells the peer why in an ErrorReply, then ends the connection.
  void reject(const Error& why);
  void close(const Error& why);
  // The peer has shaken hands: from now on messages may be large (io thread). Before that, they must be
  // small, and still smaller after distrust().
  void trust() { max_words_ = kMaxMessageWords; }
  void distrust() { max_words_ = kHandshakeWords; }
  bool trusted() const { return max_words_ == kMaxMessageWords; }
  // Cuts the connection, with kTimeout, when there is no progress for `silence` (liveness.h), and tells the
  // peer once in a while that this side is there (io thread).
  void watch(Liveness::Duration silence);
  // Beyond this host, where the bytes of a large message trickle in: they are read when there are many
  // (before start()).
  void read_in_bulk() { in_bulk_ = true; }
  // Large messages may travel as places in memory that both processes share (before start()).
  void share(std::unique_ptr<Sharing> sharing) { sharing_ = std::move(sharing); }
  // Replaces the handlers from the next frame on (io thread; also from within on_frame).
  void set_handlers(std::function<void(InFrame)> on_frame, std::function<void(const Error&)> on_close);

 private:
  class Arriving;
  class ArrivingLarge;
  class ReadAhead;
  template <class T>
  struct ReadMemory;
  class CountsReceived;
  template <class Step>
  void reading(Step&& step);
  template <class Then>
  void read(boost::asio::mutable_buffer to, Then then);
  void await(size_t bytes);
  uint64_t arrived() const;
  void read_header();
  void read_ahead();
  void read_some(const boost::system::error_code& e, size_t bytes);
  void take_header();
  size_t take_ahead(std::span<std::byte> to);
  void admit();
  void admit_to_process(ByteBudget::Share here);
  void admitted(ByteBudget::Share in_process);
  ByteBudget::Granted then(void (Connection::*next)(ByteBudget::Share));
  void read_chunk(std::shared_ptr<Arrival> arrival);
  void read_place();
  void chunk_complete();
  bool may_read() const;
  void resume();
  bool has_room(const std::function<void()>& room);
  // Writing is done by the one thread that set writing_, or by the io thread if that thread posted it there.
  void write();
  void take_alone(OutFrame frame);
  void take_chunks();
  void write_taken();
  size_t write_now();
  void written();
  void write_rest(size_t sent);
  void fail_with(const boost::system::error_code& e);
  ConnectionProgress progress();
  bool look();
  bool is_ping_due();
  void ping();
  void heard_ping();
  void offer_memory();
  void heard_own();
  void cut(const std::string& why);

  // What each small message touches stands together, of reading and of writing: with thousands of
  // connections, little of one is in a cache when its turn comes.
  const std::shared_ptr<EventLoop> loop_;  // before all that is on it
  const std::shared_ptr<Flow> flow_;
  Socket socket_;
  ClosedInChildren in_children_;  // before the socket is closed
  bool closed_ = false;

  // Reading.
  bool in_bulk_ = false;
  bool in_chunk_ = false;             // of a message of several chunks: it is being read
  bool waits_ = false;                // a request that is about to arrive has no room yet
  std::atomic<bool> paused_ = false;  // a header is read, but not what follows, until may_read()
  int awaited_ = 1;                   // bytes, before the socket counts as readable
  size_t max_words_ = 1 << 13;
  size_t ahead_begin_ = 0, ahead_end_ = 0;       // what of ahead_ is not taken yet
  uint64_t received_ = 0, received_before_ = 0;  // bytes; before the read under way
  std::atomic<size_t> in_flight_ = 0;            // requests of the peer without an answer
  std::shared_ptr<Arriving> small_arrival_;      // of all small requests; once one has come
  FrameHeader header_;
  InFrame current_;  // whose chunk is being read
  // What one call has read of the next header and of what follows it: most small messages as a whole.
  std::array<std::byte, kReadAhead> ahead_;
  alignas(std::max_align_t) std::array<std::byte, kReadRoom> read_room_;  // of the read under way
  std::optional<InFrame> partial_;              // the message of several chunks that has begun
  SharedPlace place_;                           // of the message whose header was read
  const std::shared_ptr<ByteBudget> arriving_;  // bytes of requests without an answer
  ByteBudget::Share here_;                      // of arriving_, while a request waits for the process's room
  uint64_t message_received_ = 0;               // received_ at the last byte of a message of several chunks

  // Writing.
  struct Outgoing {
    OutFrame frame;
    uint32_t next_chunk = 0;
  };
  struct Part {
    OutFrame frame;
    SharedPlace place = {};  // instead of words, with FrameHeader::kShared
  };
  Mutex queue_mutex_;
  bool writing_ ABSL_GUARDED_BY(queue_mutex_) = false;  // a thread is writing
  bool finishing_ ABSL_GUARDED_BY(queue_mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(queue_mutex_) = false;  // nothing is sent any more
  std::atomic<bool> ping_waits_ = false;              // to be written
  std::atomic<size_t> leaving_ = 0;  // bytes that wait to be written; changed under queue_mutex_
  std::atomic<uint64_t> sent_ = 0;   // bytes given to the socket
  std::vector<Part> busy_;           // one chunk each, being written; only for the thread that writes
  std::vector<boost::asio::const_buffer> buffers_;
  Mutex socket_mutex_;  // no other thread writes to a socket that is being closed
  std::deque<OutFrame> small_ ABSL_GUARDED_BY(queue_mutex_);
  std::deque<Outgoing> large_ ABSL_GUARDED_BY(queue_mutex_);  // the first one is being sent

  std::unique_ptr<Sharing> sharing_;  // null: everything goes over the socket

  Error ending_{ErrorCode::kUnavailable, "this process ended the connection"};
  boost::asio::steady_timer timer_;
  // Once it is watched; on the io thread.
  std::optional<Liveness> liveness_;
  uint64_t sent_before_ = 0;  // sent_ at the last look
  bool skipped_ping_ = false, said_waits_ = false;
};

}  // namespace embers
