#include "bench/storage/store_connection.h"

#include <endian.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/errors.h"
#include "bench/storage/store_socket.h"

namespace embers {
namespace {

// A name takes no character that a text protocol would mind.
constexpr size_t kName = 8, kBitsOfCharacter = 6;
constexpr std::string_view kCharacters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

class Name {
 public:
  explicit Name(int64_t key) {
    auto rest = static_cast<uint64_t>(key);
    for (char& c : text_) {
      c = kCharacters[rest % kCharacters.size()];
      rest >>= kBitsOfCharacter;
    }
    if (rest != 0) fail(ErrorCode::kInvalid, "key {} is too large for a name of the benchmark", key);
  }
  operator std::string_view() const { return {text_.data(), text_.size()}; }

 private:
  std::array<char, kName> text_;
};

std::string_view bytes_of(std::span<const float> value) {
  return {reinterpret_cast<const char*>(value.data()), value.size_bytes()};
}

[[noreturn]] void missing(int64_t key, std::string_view answer) {
  fail(ErrorCode::kInternal, "a server of the benchmark has no row of key {}: it answers '{}'", key, answer);
}
[[noreturn]] void not_stored(std::string_view answer) {
  fail(ErrorCode::kInternal, "a server of the benchmark does not store rows: it answers '{}'", answer);
}

// The protocols, in the order in which a connection calls them: for each chunk ask(), and later begin() and
// next() of each key; for each chunk that is written begin_store(), store() of each key; at the end
// expect_stored().

// Redis.
class Resp {
 public:
  Resp(StoreSocket& socket, size_t bytes)
      : socket_(socket), bytes_(bytes), head_(fmt::format("\r\n${}\r\n", bytes)) {}

  void ask(StoreConnection::KeySpan keys) {
    socket_.put(fmt::format("*{}\r\n$4\r\nMGET", keys.size() + 1));
    for (const int64_t key : keys) {
      socket_.put(kHeadOfName);
      socket_.put(Name(key));
    }
    socket_.put("\r\n");
  }
  void begin(size_t keys) {
    if (const std::string_view line = socket_.take_line(); line != fmt::format("*{}", keys))
      fail(ErrorCode::kInternal, "redis does not answer MGET, but '{}'", line);
  }
  std::string_view next(size_t, int64_t key) {
    const std::string_view line = socket_.take_line();
    if (line != std::string_view(head_).substr(2, head_.size() - 4)) missing(key, line);
    return socket_.take(bytes_ + 2).substr(0, bytes_);
  }
  void end() {}

  void begin_store(size_t keys) {
    socket_.put(fmt::format("*{}\r\n$4\r\nMSET", 2 * keys + 1));
    ++stores_;
  }
  void store(int64_t key, std::string_view value) {
    socket_.put(kHeadOfName);
    socket_.put(Name(key));
    socket_.put(head_);
    socket_.put(value);
  }
  void end_store() { socket_.put("\r\n"); }
  void expect_stored() {
    for (; stores_ > 0; --stores_)
      if (const std::string_view line = socket_.take_line(); line != "+OK") not_stored(line);
  }

 private:
  static constexpr std::string_view kHeadOfName = "\r\n$8\r\n";
  static_assert(kName == 8);

  StoreSocket& socket_;
  const size_t bytes_;
  const std::string head_;  // of a value
  size_t stores_ = 0;       // commands that are still to be answered
};

// memcached's binary protocol: quiet gets and sets, and no-ops behind them, which answer for those that have
// nothing to say.
class Binary {
 public:
  Binary(StoreSocket& socket, size_t bytes) : socket_(socket), bytes_(bytes) {}

  void ask(StoreConnection::KeySpan keys) {
    for (size_t i = 0; i < keys.size(); ++i) {
      put_header(kGetQuietly, kName, 0, kName, static_cast<uint32_t>(i));
      socket_.put(Name(keys[i]));
    }
    put_header(kNoOp, 0, 0, 0, 0);
  }
  void begin(size_t) {}
  std::string_view next(size_t i, int64_t key) {
    const Header header = take_header();
    if (header.operation != kGetQuietly || header.status != 0 || header.opaque != i ||
        be32toh(header.body) != kFlags + bytes_)
      missing(key, fmt::format("operation {}, status {}", header.operation, be16toh(header.status)));
    return socket_.take(kFlags + bytes_).substr(kFlags);
  }
  void end() {
    if (const Header header = take_header(); header.operation != kNoOp)
      fail(ErrorCode::kInternal, "memcached answers more than it was asked for");
  }

  void begin_store(size_t) {}
  void store(int64_t key, std::string_view value) {
    constexpr std::array<char, 8> kFlagsAndExpiry{};
    put_header(kSetQuietly, kName, kFlagsAndExpiry.size(), kFlagsAndExpiry.size() + kName + bytes_, 0);
    socket_.put({kFlagsAndExpiry.data(), kFlagsAndExpiry.size()});
    socket_.put(Name(key));
    socket_.put(value);
  }
  void end_store() {}
  void expect_stored() {
    put_header(kNoOp, 0, 0, 0, 0);
    socket_.send_all();
    if (const Header header = take_header(); header.operation != kNoOp)
      not_stored(fmt::format("status {}", be16toh(header.status)));
  }

 private:
  enum Operation : uint8_t { kGetQuietly = 0x09, kNoOp = 0x0a, kSetQuietly = 0x11 };
  static constexpr size_t kFlags = 4;

  // Numbers of several bytes are big-endian; opaque ones come back as they are.
  struct Header {
    uint8_t magic, operation;
    uint16_t name_size;
    uint8_t extras_size, type;
    uint16_t status;  // of an answer
    uint32_t body, opaque;
    uint64_t version;
  };
  static_assert(sizeof(Header) == 24);

  void put_header(Operation operation, size_t name, size_t extras, size_t body, uint32_t opaque) {
    const Header header{0x80, operation, htobe16(static_cast<uint16_t>(name)), static_cast<uint8_t>(extras),
                        0,    0,         htobe32(static_cast<uint32_t>(body)), opaque,
                        0};
    socket_.put({reinterpret_cast<const char*>(&header), sizeof header});
  }
  Header take_header() {
    Header header;
    std::memcpy(&header, socket_.take(sizeof header).data(), sizeof header);
    if (header.magic != 0x81) fail(ErrorCode::kInternal, "memcached answers in another protocol");
    return header;
  }

  StoreSocket& socket_;
  const size_t bytes_;
};

// memcached's meta protocol, which is text.
class Meta {
 public:
  Meta(StoreSocket& socket, size_t bytes)
      : socket_(socket),
        bytes_(bytes),
        head_(fmt::format("VA {}", bytes)),
        set_end_(fmt::format(" {} q\r\n", bytes)) {}

  void ask(StoreConnection::KeySpan keys) {
    for (const int64_t key : keys) {
      socket_.put("mg ");
      socket_.put(Name(key));
      socket_.put(" v\r\n");
    }
  }
  void begin(size_t) {}
  std::string_view next(size_t, int64_t key) {
    if (const std::string_view line = socket_.take_line(); line != head_) missing(key, line);
    return socket_.take(bytes_ + 2).substr(0, bytes_);
  }
  void end() {}

  void begin_store(size_t) {}
  void store(int64_t key, std::string_view value) {
    socket_.put("ms ");
    socket_.put(Name(key));
    socket_.put(set_end_);
    socket_.put(value);
    socket_.put("\r\n");
  }
  void end_store() {}
  void expect_stored() {
    socket_.put("mn\r\n");
    socket_.send_all();
    if (const std::string_view line = socket_.take_line(); line != "MN") not_stored(line);
  }

 private:
  StoreSocket& socket_;
  const size_t bytes_;
  const std::string head_, set_end_;
};

template <class Protocol>
class Connection final : public StoreConnection {
 public:
  Connection(const std::string& path, size_t floats)
      : socket_(path), protocol_(socket_, floats * sizeof(float)), value_(floats) {}

  void fill(KeySpan keys, size_t chunk, std::span<const float> value) override {
    if (value.size() != value_.size())
      fail(ErrorCode::kInternal, "a value of {} floats, not {}", value.size(), value_.size());
    in_chunks(keys, chunk,
              [&](size_t, KeySpan some) { store(some, [&](size_t) { return bytes_of(value); }); });
    expect_stored();
  }

  void read(KeySpan keys, size_t chunk, const Visit& visit) override {
    ask(keys, chunk);
    in_chunks(keys, chunk, [&](size_t first, KeySpan some) {
      protocol_.begin(some.size());
      for (size_t i = 0; i < some.size(); ++i) {
        take_value(i, some[i]);
        visit(first + i, value_);
      }
      protocol_.end();
    });
  }

  void update(KeySpan keys, size_t chunk, const Change& change) override {
    ask(keys, chunk);
    in_chunks(keys, chunk, [&](size_t first, KeySpan some) {
      protocol_.begin(some.size());
      store(some, [&](size_t i) {
        take_value(i, some[i]);
        change(first + i, value_);
        return bytes_of(value_);
      });
      protocol_.end();
    });
    expect_stored();
  }

 private:
  static void in_chunks(KeySpan keys, size_t chunk, const std::function<void(size_t, KeySpan)>& visit) {
    for (size_t first = 0; first < keys.size(); first += chunk)
      visit(first, keys.subspan(first, std::min(chunk, keys.size() - first)));
  }

  void ask(KeySpan keys, size_t chunk) {
    in_chunks(keys, chunk, [&](size_t, KeySpan some) {
      protocol_.ask(some);
      socket_.send_some();
    });
    socket_.send_all();
  }
  // Into value_, since what was received need not be aligned.
  void take_value(size_t i, int64_t key) {
    const std::string_view value = protocol_.next(i, key);
    std::memcpy(value_.data(), value.data(), value.size());
  }
  template <class Value>
  void store(KeySpan keys, const Value& value) {
    protocol_.begin_store(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) protocol_.store(keys[i], value(i));
    protocol_.end_store();
    socket_.send_some();
  }
  void expect_stored() {
    socket_.send_all();
    protocol_.expect_stored();
  }

  StoreSocket socket_;
  Protocol protocol_;
  std::vector<float> value_;
};

constexpr std::string_view kRedis[] = {"resp"}, kMemcached[] = {"binary", "meta"};

}  // namespace

std::span<const std::string_view> store_protocols(std::string_view kind) {
  if (kind == "redis") return kRedis;
  if (kind == "memcached") return kMemcached;
  fail(ErrorCode::kInternal, "'{}' is no server of the benchmark", kind);
}

std::unique_ptr<StoreConnection> connect_store(std::string_view protocol, const std::string& path,
                                               size_t floats) {
  if (protocol == "resp") return std::make_unique<Connection<Resp>>(path, floats);
  if (protocol == "binary") return std::make_unique<Connection<Binary>>(path, floats);
  if (protocol == "meta") return std::make_unique<Connection<Meta>>(path, floats);
  fail(ErrorCode::kInternal, "'{}' is no protocol of the benchmark", protocol);
}

}  // namespace embers
