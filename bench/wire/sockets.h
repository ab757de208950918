#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/frames/frame.h"
#include "actors/transport/connections/connection.h"
#include "base/floats/stores.h"
#include "bench/harness/child.h"
#include "bench/harness/latencies.h"

// What the wire is compared with: programs that move the frames of pulls, and nothing else. A client sends
// requests for rows as a worker's proxy would, with some of them on their way; a server reads
// each and answers under its correlation, whose remainder says which minibatch it is for. Clients read into
// one buffer again and again, check the header's magic number and size, and look at the ends of the rows.
//
// Two programs that send replies which were made once, one for each minibatch:
//   asio      one io_context and thread on each side, asynchronous; header and payload in one gather write
//   blocking  one thread on each side of a connection; send and recv
// and five servers that do what no server of rows can avoid, but no more: for each request they send as many
// rows as embers' side from random known places among as many.
//   rows      asio's server, copying all rows before it writes
//   rows2     the same, copying on a second thread, so that it goes on while the first one writes
//   chunked   a blocking server that copies some rows and sends them, again and again: what is sent is still
//             in the nearest cache
//   chunked2  the same, sending on a second thread, so that it goes on copying meanwhile
//   gather    a blocking server that has the kernel collect the rows, a piece of a gather write for each
// and one that does the same in memory that both processes share:
//   mapped    a blocking server that copies all rows into a slot of it that the client has read, and sends
//             which slot that is; the client reads every float there
namespace embers {

// Of a message behind its header, and how many trips are under way at a time.
struct TripSize {
  size_t request_words, reply_words, outstanding;
};

// Of a connection: what the kernel buffers of replies, what "chunked" and "chunked2" copy at a time, and how
// "mapped" does.
struct SocketSettings {
  int buffer_bytes = 256 << 10;
  size_t chunk_bytes = 64 << 10;
  Stores stores = Stores::kCached;  // of "mapped"
};
inline constexpr int kSocketBuffers[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20};  // to choose from

// The part "sockets KIND ADDRESS REQUEST_WORDS REPLY_WORDS OUTSTANDING": serves each connection on a thread
// of its own until its input ends; ready with its address. Told "BUFFER_BYTES CHUNK_BYTES cached|around", it
// serves the next ones so.
void serve_sockets(const std::vector<std::string>& words);

// The part "socket-client KIND ADDRESS REQUEST_WORDS REPLY_WORDS OUTSTANDING": answers "connect BUFFER_BYTES
// CHUNK_BYTES cached|around" when it is connected anew, "pull N" with the seconds of N trips, "check" with
// the checksums of the rows of each minibatch; if it is "blocking", "pull-at RATE N SEED" with latencies
// in ms.
void run_socket_client(const std::vector<std::string>& words);

// Processes that play these parts, for pulls of kBenchKeys rows.
BenchChild bare_server(const std::string& kind, const std::string& address);
BenchChild bare_client(const std::string& kind, const BenchChild& server);
// The words that have a server, or a client, use these settings from the next connection on.
std::string words_of(const SocketSettings& settings);

// For the files of this folder: the ends of one connection.
using Socket = Connection::Socket;

class SocketClient {
 public:
  virtual ~SocketClient() = default;
  // Makes this many trips; returns the seconds they took.
  virtual double trips(size_t count) = 0;
  // Makes them at moments that do not depend on answers (due_moments.h).
  virtual Latencies trips_at(double rate, size_t count, uint64_t seed);
  // Fetches the reply for this minibatch, which stays as it is until the next call.
  virtual std::span<const float> fetch(size_t minibatch) = 0;
};

FrameHeader bare_header(size_t words, uint64_t correlation, uint16_t flags);
void check_size(const FrameHeader& header, size_t words);
[[noreturn]] void broken_socket(const std::string& why);
// The rows at the end of a reply.
std::span<float> rows_of(std::vector<uint64_t>& reply);
// The options of every side's sockets, but for the sizes of buffers.
void tune_bare(Socket& socket, const SocketSettings& settings);

std::unique_ptr<SocketClient> asio_client(boost::asio::io_context& io, Socket socket, TripSize size);
void serve_asio(const std::string& kind, Socket socket, boost::asio::io_context& io, TripSize size);
std::unique_ptr<SocketClient> blocking_client(const std::string& kind, Socket socket, TripSize size);
void serve_blocking(const std::string& kind, Socket socket, TripSize size, const SocketSettings& settings);

}  // namespace embers
