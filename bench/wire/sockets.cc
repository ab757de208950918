#include "bench/wire/sockets.h"

#include <utility>  // Boost 1.74's Asio forgets it

#include <fmt/ranges.h>
#include <boost/asio.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "actors/transport/addresses/endpoint.h"
#include "actors/transport/addresses/unix_address.h"
#include "actors/transport/transport.h"
#include "apps/process/runtime.h"
#include "base/errors.h"
#include "bench/harness/compare.h"
#include "bench/wire/keys.h"
#include "schema/messages/codec.h"

namespace embers {
namespace asio = boost::asio;
namespace {

TripSize size_of(const std::vector<std::string>& words) {
  return {std::stoul(words.at(3)), std::stoul(words.at(4)), std::stoul(words.at(5))};
}

SocketSettings settings_in(std::istream& in) {
  SocketSettings settings;
  std::string stores;
  in >> settings.buffer_bytes >> settings.chunk_bytes >> stores;
  settings.stores = stores == "around" ? Stores::kAround : Stores::kCached;
  return settings;
}

// What the next connection gets.
class NextSettings {
 public:
  void set(const SocketSettings& settings) {
    const std::lock_guard lock(mutex_);
    settings_ = settings;
  }
  SocketSettings get() const {
    const std::lock_guard lock(mutex_);
    return settings_;
  }

 private:
  mutable std::mutex mutex_;
  SocketSettings settings_;
};

bool is_blocking(const std::string& kind) {
  return kind == "blocking" || kind.starts_with("chunked") || kind == "gather" || kind == "mapped";
}

TripSize trip_size() {
  const std::vector<int64_t> keys(kBenchKeys);
  const TableSlices slices{0, {KeyKind::kInt64, keys, {}, {}}, 0, {}};
  const RowsShape shape{0, kBenchDim, kBenchKeys};
  return {make_pull({}, wire::ReadMode::LATEST, false, {&slices, 1}).words().size(),
          make_pull_reply(0, {&shape, 1}, [](size_t, std::span<float>) {}).words().size(), kBenchOutstanding};
}

BenchChild bare_part(const std::string& part, const std::string& kind, const std::string& address) {
  const TripSize size = trip_size();
  return BenchChild::part({part, kind, address, std::to_string(size.request_words),
                           std::to_string(size.reply_words), std::to_string(size.outstanding)});
}

template <class Protocol>
void serve(const std::string& kind, const typename Protocol::endpoint& at, TripSize size,
           const std::function<std::string(const typename Protocol::endpoint&)>& text) {
  asio::io_context listening(1);
  typename Protocol::acceptor acceptor(listening, at);
  NextSettings next;
  std::thread server([&] {
    for (;;) {
      struct Accepted {
        asio::io_context io{1};
        std::optional<Socket> socket;
      };
      auto accepted = std::make_unique<Accepted>();
      accepted->socket.emplace(acceptor.accept(accepted->io));
      std::thread([&kind, size, settings = next.get(), accepted = std::move(accepted)] {
        Socket& socket = *accepted->socket;
        tune_bare(socket, settings);
        if (is_blocking(kind))
          serve_blocking(kind, std::move(socket), size, settings);
        else
          serve_asio(kind, std::move(socket), accepted->io, size);
      }).detach();
    }
  });
  answer_lines(text(acceptor.local_endpoint()), [&](const std::string& line) {
    std::istringstream in(line);
    next.set(settings_in(in));
    return "done";
  });
  end_process(0);
}

Socket connect(asio::io_context& io, const Endpoint& to) {
  if (to.unix_socket) {
    asio::local::stream_protocol::socket socket(io);
    socket.connect(unix_address(to));
    return Socket(std::move(socket));
  }
  asio::ip::tcp::socket socket(io);
  socket.connect({asio::ip::make_address(to.host), static_cast<uint16_t>(std::stoi(to.port))});
  return Socket(std::move(socket));
}

}  // namespace

FrameHeader bare_header(size_t words, uint64_t correlation, uint16_t flags) {
  FrameHeader h;
  h.words = h.total = static_cast<uint32_t>(words);
  h.correlation = correlation;
  h.flags = flags;
  return h;
}

void check_size(const FrameHeader& h, size_t words) {
  if (h.magic != FrameHeader::kMagic || h.words != words) broken_socket("a frame of another size");
}

void broken_socket(const std::string& why) {
  fail(ErrorCode::kInternal, "a socket of the benchmark broke: {}", why);
}

std::span<float> rows_of(std::vector<uint64_t>& reply) {
  constexpr size_t kFloats = kBenchKeys * kBenchDim;
  return {reinterpret_cast<float*>(reply.data() + reply.size()) - kFloats, kFloats};
}

void tune_bare(Socket& socket, const SocketSettings& settings) {
  tune(socket);
  socket.set_option(asio::socket_base::send_buffer_size(settings.buffer_bytes));
  socket.set_option(asio::socket_base::receive_buffer_size(settings.buffer_bytes));
}

BenchChild bare_server(const std::string& kind, const std::string& address) {
  return bare_part("sockets", kind, address);
}

BenchChild bare_client(const std::string& kind, const BenchChild& server) {
  return bare_part("socket-client", kind, server.ready());
}

std::string words_of(const SocketSettings& settings) {
  return fmt::format("{} {} {}", settings.buffer_bytes, settings.chunk_bytes,
                     settings.stores == Stores::kAround ? "around" : "cached");
}

Latencies SocketClient::trips_at(double, size_t, uint64_t) {
  fail(ErrorCode::kInternal, "this client asks again only when it is answered");
}

void serve_sockets(const std::vector<std::string>& words) {
  const std::string &kind = words.at(1), &address = words.at(2);
  const Endpoint at = parse_endpoint(address);
  if (at.unix_socket)
    serve<asio::local::stream_protocol>(kind, unix_address(at), size_of(words),
                                        [&](auto&) { return address; });
  else
    serve<asio::ip::tcp>(
        kind, {asio::ip::make_address(at.host), static_cast<uint16_t>(std::stoi(at.port))}, size_of(words),
        [](const auto& e) { return fmt::format("{}:{}", e.address().to_string(), e.port()); });
}

void run_socket_client(const std::vector<std::string>& words) {
  const Endpoint to = parse_endpoint(words.at(2));
  std::unique_ptr<asio::io_context> io;  // of one connection, as is what it still has to do
  std::unique_ptr<SocketClient> client;
  answer_lines("", [&](const std::string& line) -> std::string {
    std::istringstream in(line);
    std::string what;
    in >> what;
    if (what == "connect") {
      client.reset();
      io = std::make_unique<asio::io_context>(1);
      Socket socket = connect(*io, to);
      tune_bare(socket, settings_in(in));
      client = is_blocking(words.at(1)) ? blocking_client(words.at(1), std::move(socket), size_of(words))
                                        : asio_client(*io, std::move(socket), size_of(words));
      return "done";
    }
    if (what == "check") {
      std::string sums;
      for (size_t m = 0; m < kBenchMinibatches; ++m)
        sums += fmt::format("{:016x} ", checksum(client->fetch(m)));
      return sums;
    }
    double rate = 0;
    if (what == "pull-at") in >> rate;
    size_t trips = 0;
    uint64_t seed = 0;
    in >> trips >> seed;
    if (what == "pull-at")
      return fmt::format("{:.4f}", fmt::join(client->trips_at(rate, trips, seed).all(), " "));
    return fmt::format("{}", client->trips(trips));
  });
}

}  // namespace embers
