// The one file that knows hiredis.
//
// Commands are pipelined: appended to the connection's buffer, sent together, and every reply is read.
#include <hiredis/hiredis.h>

#include <cerrno>
#include <charconv>
#include <deque>
#include <utility>

#include "base/errors.h"
#include "schema/ids.h"
#include "storage/external/key_value_server.h"

namespace embers::storage {
namespace {

constexpr uint64_t kLongestString = 512 << 20;  // Redis' own limit

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

timeval to_timeval(std::chrono::milliseconds time) {
  return {time.count() / 1000, time.count() % 1000 * 1000};
}

std::string_view text(const redisReply& reply) { return {reply.str, reply.len}; }

class RedisServer final : public KeyValueServer {
 public:
  RedisServer(const std::string& address, const ServerTimeouts& timeouts, const ServerLogin& login)
      : address_(address), timeouts_(timeouts), login_(login) {
    const ServerAddress at = parse_server(address);
    const timeval most = to_timeval(timeouts.connect);
    context_.reset(at.unix_socket() ? redisConnectUnixWithTimeout(at.host.c_str(), most)
                                    : redisConnectWithTimeout(at.host.c_str(), at.port, most));
    const auto refuse = [&](std::string_view why) {
      fail(ErrorCode::kUnreachable, "Redis server {}: {}", address_, why);
    };
    if (!context_) refuse("not enough memory for a connection");
    const std::string why = context_->err != 0 ? context_->errstr : greet();
    if (context_->err != 0) refuse(why + ": is Redis running there?");
    if (why.starts_with("NOAUTH")) refuse(why + " Set EMBERS_REDIS_PASSWORD where the job is started");
    if (!why.empty()) refuse(why);
  }

  const std::string& address() const override { return address_; }
  uint64_t longest_value() override { return kLongestString; }

  void request(std::span<const std::string_view> names) override {
    asked_.push_back(names.size());
    if (names.empty()) return;
    words_.assign({"MGET"});
    words_.insert(words_.end(), names.begin(), names.end());
    append(words_);
    for (int done = 0; done == 0 && redisBufferWrite(context_.get(), &done) == REDIS_OK;) {
    }  // receive() says what is wrong
  }
  // It takes requests whether or not its answers are read, which wait in its memory.
  size_t most_requests() const override { return 2; }

  void receive(const Visit& visit) override {
    const size_t asked = asked_.front();
    asked_.pop_front();
    if (asked == 0) return;
    read_writes();
    const Reply reply = read();
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != asked)
      fail(ErrorCode::kUnavailable, "Redis server {}: MGET: {}", address_,
           reply->type == REDIS_REPLY_ERROR ? text(*reply) : "an answer of the wrong length");
    for (size_t i = 0; i < reply->elements; ++i)
      if (reply->element[i]->type == REDIS_REPLY_STRING) visit(i, text(*reply->element[i]));
  }

  void set(std::string_view name, std::string_view value) override { write({"SET", name, value}); }
  void add(std::string_view name, std::string_view value) override { write({"SET", name, value, "NX"}); }

  void flush() override {
    for (int done = 0; done == 0;)
      if (redisBufferWrite(context_.get(), &done) != REDIS_OK) fail_unavailable();
  }

  Health barrier(std::string_view mark) override {
    Health health;
    append({"GET", mark});
    append({"INFO", "stats"});
    read_writes();
    health.refused_writes = std::exchange(refused_, {});
    if (const Reply reply = read(); reply->type == REDIS_REPLY_STRING) health.mark = text(*reply);
    const Reply info = read();
    if (info->type != REDIS_REPLY_STRING)
      fail(ErrorCode::kUnavailable, "Redis server {}: INFO: no answer", address_);
    constexpr std::string_view kEvicted = "evicted_keys:";
    const std::string_view lines = text(*info);
    if (const size_t at = lines.find(kEvicted); at != lines.npos)
      std::from_chars(lines.data() + at + kEvicted.size(), lines.data() + lines.size(), health.evictions);
    return health;
  }

  void reconnect() override {
    asked_.clear();
    writes_ = 0;
    refused_.clear();
    if (redisReconnect(context_.get()) != REDIS_OK) fail_unavailable();
    if (const std::string why = greet(); !why.empty()) fail_unavailable(why);
  }

 private:
  using Words = std::span<const std::string_view>;

  // The first answers of a new connection. Returns what is wrong with them, or "".
  std::string greet() {
    redisSetTimeout(context_.get(), to_timeval(timeouts_.connect));
    if (!login_.password.empty()) {
      const std::string why =
          login_.user.empty() ? ask({"AUTH", login_.password}) : ask({"AUTH", login_.user, login_.password});
      if (!why.empty()) return why;
    }
    std::string why = ask({"PING"});
    redisSetTimeout(context_.get(), to_timeval(timeouts_.answer));
    return why;
  }

  // Returns what is wrong with the answer, or "".
  std::string ask(std::initializer_list<std::string_view> words) {
    append(words);
    redisReply* answer = nullptr;
    if (redisGetReply(context_.get(), reinterpret_cast<void**>(&answer)) != REDIS_OK) return said();
    const Reply reply(answer);
    return reply->type == REDIS_REPLY_ERROR ? std::string(text(*reply)) : "";
  }

  // What went wrong; a socket's timeout reads as EAGAIN.
  std::string said() const {
    const bool timed_out = context_->err == REDIS_ERR_IO && errno == EAGAIN;
    return timed_out ? "no answer in time" : context_->errstr;
  }

  void append(std::initializer_list<std::string_view> words) { append(Words(words.begin(), words.size())); }
  void append(Words words) {
    pointers_.clear();
    lengths_.clear();
    for (const std::string_view word : words) {
      pointers_.push_back(word.data());
      lengths_.push_back(word.size());
    }
    if (redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), pointers_.data(),
                               lengths_.data()) != REDIS_OK)
      fail_unavailable();
  }
  void write(std::initializer_list<std::string_view> words) {
    append(words);
    ++writes_;
  }

  // Reads the replies to writes, which come before the reply that is to be read next.
  void read_writes() {
    for (; writes_ > 0; --writes_)
      if (const Reply reply = read(); reply->type == REDIS_REPLY_ERROR && refused_.empty())
        refused_ = text(*reply);
  }

  Reply read() {
    redisReply* reply = nullptr;
    if (redisGetReply(context_.get(), reinterpret_cast<void**>(&reply)) != REDIS_OK) fail_unavailable();
    return Reply(reply);
  }

  [[noreturn]] void fail_unavailable() const { fail_unavailable(said()); }
  [[noreturn]] void fail_unavailable(const std::string& why) const {
    fail(ErrorCode::kUnavailable, "Redis server {}: {}", address_, why);
  }

  const std::string address_;
  const ServerTimeouts timeouts_;
  const ServerLogin login_;
  std::unique_ptr<redisContext, FreeContext> context_;
  std::deque<size_t> asked_;  // names in the requests under way
  size_t writes_ = 0;         // writes whose replies are still to be read
  std::string refused_;       // its answer to the first write that it refused since the last barrier
  std::vector<std::string_view> words_;
  std::vector<const char*> pointers_;
  std::vector<size_t> lengths_;
};

}  // namespace

KeyValueServers connect_redis(const std::vector<std::string>& addresses, const ServerTimeouts& timeouts,
                              const ServerLogin& login) {
  KeyValueServers servers;
  for (const std::string& address : addresses)
    servers.all.push_back(std::make_unique<RedisServer>(address, timeouts, login));
  servers.server_of = [addresses](std::string_view name) {
    size_t best = 0;
    uint64_t most = 0;
    for (size_t s = 0; s < addresses.size(); ++s) {
      const auto mixed = static_cast<int64_t>(hash_key(name) ^ hash_key(addresses[s]));
      if (const uint64_t weight = hash_key(mixed); weight >= most) {
        most = weight;
        best = s;
      }
    }
    return best;
  };
  return servers;
}

}  // namespace embers::storage
