// The one file that knows hiredis.
//
// Commands are pipelined: appended to the connection's buffer, sent together, and every reply is read. Values
// that are set are sent as soon as there are enough for an MSET, so that the server works meanwhile.
#include <hiredis/hiredis.h>

#include <cerrno>
#include <charconv>
#include <deque>
#include <exception>
#include <iterator>
#include <utility>

#include "base/errors.h"
#include "schema/ids.h"
#include "storage/external/key_value_server.h"

namespace embers::storage {
namespace {

constexpr uint64_t kLongestString = 512 << 20;  // Redis' own limit
constexpr size_t kMostSetBytes = 32 << 10;      // that wait for an MSET
constexpr size_t kSetHead = 32;                 // room for the begin of one

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

// Hands the strings of an array to `visit` where they lie in the connection's buffer: a reply that owns them
// would take two pieces of memory for each.
class ArrayReader {
 public:
  ArrayReader(redisReader& reader, size_t asked, const KeyValueServer::Visit& visit)
      : reader_(reader), asked_(asked), visit_(visit) {
    static redisReplyObjectFunctions functions{string, array, number, nil, free};
    reader_.fn = &functions;
    reader_.privdata = this;
  }
  ArrayReader(const ArrayReader&) = delete;
  ArrayReader& operator=(const ArrayReader&) = delete;
  ~ArrayReader() {
    reader_.fn = fn_;
    reader_.privdata = nullptr;
    reader_.reply = nullptr;  // of an array that broke off; hiredis would free it
  }

  // What visit() threw is thrown again. Returns what is wrong with the reply, or "".
  std::string end() const {
    if (thrown_) std::rethrow_exception(thrown_);
    if (!error_.empty()) return error_;
    return elements_ == asked_ ? "" : "an answer of the wrong length";
  }

 private:
  static ArrayReader& of(const redisReadTask* task) { return *static_cast<ArrayReader*>(task->privdata); }
  static void* string(const redisReadTask* task, char* text, size_t size) {
    ArrayReader& self = of(task);
    const std::string_view value(text, size);
    const bool is_reply = task->parent == nullptr, is_element = !is_reply && task->parent->parent == nullptr;
    try {
      if (is_reply && task->type == REDIS_REPLY_ERROR) self.error_ = value;
      if (is_element && task->type == REDIS_REPLY_STRING && self.elements_ == self.asked_ && !self.thrown_)
        self.visit_(static_cast<size_t>(task->idx), value);
    } catch (...) {  // hiredis is C
      self.thrown_ = std::current_exception();
    }
    return &self;
  }
  static void* array(const redisReadTask* task, int elements) {
    if (task->parent == nullptr) of(task).elements_ = static_cast<size_t>(elements);
    return task->privdata;
  }
  static void* number(const redisReadTask* task, long long) { return task->privdata; }
  static void* nil(const redisReadTask* task) { return task->privdata; }
  static void free(void*) {}

  redisReader& reader_;
  redisReplyObjectFunctions* const fn_ = reader_.fn;
  const size_t asked_;
  const KeyValueServer::Visit& visit_;
  std::string error_;
  std::exception_ptr thrown_;
  size_t elements_ = SIZE_MAX;
};

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
    ArrayReader reader(*context_->reader, asked, visit);
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK) fail_unavailable();
    if (const std::string why = reader.end(); !why.empty())
      fail(ErrorCode::kUnavailable, "Redis server {}: MGET: {}", address_, why);
  }

  void set(std::string_view name, std::string_view value) override {
    if (sets_ > 0 && set_words_.size() + name.size() + value.size() > kMostSetBytes) flush();
    if (sets_++ == 0) set_words_.assign(kSetHead, ' ');
    for (const std::string_view word : {name, value}) {
      fmt::format_to(std::back_inserter(set_words_), "${}\r\n", word.size());
      set_words_.append(word).append("\r\n");
    }
  }
  void add(std::string_view name, std::string_view value) override {
    append({"SET", name, value, "NX"});
    ++writes_;
  }

  void flush() override {
    append_sets();
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
    writes_ = sets_ = 0;
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
    append_sets();
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
  // What is set comes before what is appended next.
  void append_sets() {
    if (sets_ == 0) return;
    const std::string head = fmt::format("*{}\r\n$4\r\nMSET\r\n", 1 + 2 * std::exchange(sets_, 0));
    char* const begin = set_words_.data() + kSetHead - head.size();
    head.copy(begin, head.size());
    const size_t size = set_words_.size() - kSetHead + head.size();
    if (redisAppendFormattedCommand(context_.get(), begin, size) != REDIS_OK) fail_unavailable();
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
  size_t writes_ = 0;         // commands that write whose replies are still to be read
  size_t sets_ = 0;           // values of the next MSET
  std::string set_words_;     // of those, in Redis' protocol, behind kSetHead
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
