#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/transport/event_loop.h"
#include "actors/transport/frame.h"
#include "base/mutex.h"

namespace embers {

// One socket that carries frames both ways. Lives on its io_context, which one thread runs. That thread
// reads, and writes large frames, so that an actor with rows to send goes on with its next request meanwhile;
// a small frame is written by the thread that sends it, unless another thread is writing, and costs no
// wake-up. What the socket does not take at once is left to the io thread.
//
// *Thread safety*: send() and close() from any thread; everything else on the io thread.
// Invariants: (1) chunks of one message arrive in order, chunks of several may alternate, so that a small
// message never waits behind a large one; (2) after on_close nothing is called any more; (3) at most
// kMaxInFlight requests of the peer are unanswered: at that number reading stops until an answer is written,
// so that a peer cannot make this process hoard messages.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;
  static constexpr size_t kMaxInFlight = 256;
  static constexpr int kFinishSeconds = 2;
  static constexpr size_t kHandshakeWords = 128;  // of a message of the handshake: 1 KiB

  Connection(std::shared_ptr<EventLoop> loop, Socket socket);

  // Set before start(), called on the io thread. An Error that on_frame throws is told to the peer and ends
  // the connection, as does a frame that fails its checks.
  std::function<void(InFrame)> on_frame;
  std::function<void(const Error& why)> on_close;

  void start();
  void send(OutFrame frame);
  // Sends what is queued, then ends the connection, after kFinishSeconds at the latest.
  void finish();
  // Tells the peer why in an ErrorReply, then ends the connection.
  void reject(const Error& why);
  void close(const Error& why);
  // The peer has shaken hands: from now on messages may be large (io thread). Before that, they must be
  // small, and still smaller after distrust().
  void trust() { max_words_ = kMaxMessageWords; }
  void distrust() { max_words_ = kHandshakeWords; }
  bool trusted() const { return max_words_ == kMaxMessageWords; }
  // Replaces the handlers from the next frame on (io thread; also from within on_frame).
  void set_handlers(std::function<void(InFrame)> on_frame, std::function<void(const Error&)> on_close);

 private:
  void read_header();
  void read_chunk();
  void chunk_complete();
  void resume();
  // Writing is done by the one thread that set writing_, or by the io thread if that thread posted it there.
  void write();
  void take_chunks();
  size_t write_now();
  void written();
  void write_rest(size_t sent);
  void fail_with(const boost::system::error_code& e);

  const std::shared_ptr<EventLoop> loop_;  // before all that is on it
  Socket socket_;
  bool closed_ = false;

  // Reading.
  size_t max_words_ = 1 << 13;
  FrameHeader header_;
  std::map<uint64_t, InFrame> partial_;  // by (correlation, reply) of messages of several chunks
  InFrame current_;
  std::atomic<size_t> in_flight_ = 0;  // requests of the peer without an answer
  std::atomic<bool> paused_ = false;   // not reading until some are answered

  // Writing.
  struct Outgoing {
    OutFrame frame;
    uint32_t next_chunk = 0;
  };
  Mutex queue_mutex_;
  std::deque<Outgoing> queue_ ABSL_GUARDED_BY(queue_mutex_);
  bool writing_ ABSL_GUARDED_BY(queue_mutex_) = false;  // a thread is writing
  bool finishing_ ABSL_GUARDED_BY(queue_mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(queue_mutex_) = false;  // nothing is sent any more
  std::vector<OutFrame> busy_;  // one chunk each, being written; only for the thread that writes
  std::vector<boost::asio::const_buffer> buffers_;
  Mutex socket_mutex_;  // no other thread writes to a socket that is being closed

  Error ending_{ErrorCode::kUnavailable, "this process ended the connection"};
  boost::asio::steady_timer timer_;
};

}  // namespace embers
