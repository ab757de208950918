// The one file that knows libmemcached.
//
// Binary protocol: measured 1.4 times as fast at multi-gets as the text protocol, and its barrier works while
// replies are off. Reads and writes each have their own handle, and so their own connection: writes are
// buffered and unanswered, which would leave reads without their answers. libmemcached throws away what a
// server says to a refused write, so the barrier compares how many items the server counted.
#include <libmemcached/memcached.h>

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "base/errors.h"
#include "storage/external/key_value_server.h"

namespace embers::storage {
namespace {

// Writes between two answers that are waited for. A server also answers to each write that it refuses,
// however quiet, and takes no more when nobody reads that. Each add may be refused, as rows of an earlier run
// are there; sets are in want of memory, whose answers come several at a time.
constexpr size_t kMostUnanswered = 256, kUnansweredOfAdd = 4;
constexpr uint64_t kItemOverhead = 128;  // more than an item's header, the end of its name and its checksum

struct FreeHandle {
  void operator()(memcached_st* handle) const { memcached_free(handle); }
};
using Handle = std::unique_ptr<memcached_st, FreeHandle>;

using Milliseconds = std::chrono::milliseconds;

void add_server(memcached_st* handle, const std::string& text) {
  const ServerAddress address = parse_server(text);
  if (address.unix_socket())
    memcached_server_add_unix_socket(handle, address.host.c_str());
  else
    memcached_server_add(handle, address.host.c_str(), address.port);
}

Handle make_handle(const std::string& address, const ServerLogin& login, bool writes, Milliseconds connect,
                   Milliseconds answer) {
  Handle handle(memcached_create(nullptr));
  add_server(handle.get(), address);
  const auto set = [&](memcached_behavior_t what, auto to) {
    memcached_behavior_set(handle.get(), what, static_cast<uint64_t>(to));
  };
  set(MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1);
  set(MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
  set(MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, connect.count());
  set(MEMCACHED_BEHAVIOR_POLL_TIMEOUT, answer.count());
  set(MEMCACHED_BEHAVIOR_NOREPLY, writes);
  set(MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, writes);
  if (!login.password.empty() && memcached_set_sasl_auth_data(handle.get(), login.user.c_str(),
                                                              login.password.c_str()) != MEMCACHED_SUCCESS)
    fail(ErrorCode::kUnreachable,
         "memcached server {} asks for a password, and this libmemcached was built without SASL", address);
  return handle;
}

class MemcachedServer final : public KeyValueServer {
 public:
  MemcachedServer(const std::string& address, const ServerTimeouts& timeouts, const ServerLogin& login)
      : address_(address), timeouts_(timeouts), login_(login) {
    const memcached_return_t rc = connect();
    const memcached_return_t last = memcached_last_error(reads_.get());
    if (!login.password.empty() && (last == MEMCACHED_AUTH_FAILURE || last == MEMCACHED_AUTH_PROBLEM))
      fail(
          ErrorCode::kUnreachable,
          "memcached server {} refused the password of the job's servers, or the package libsasl2-modules is "
          "missing on this host: {}",
          address_, reason(reads_, rc));
    if (rc != MEMCACHED_SUCCESS)
      fail(ErrorCode::kUnreachable, "memcached server {}: {}: is memcached running there?", address_,
           reason(reads_, rc));
  }
  ~MemcachedServer() override { memcached_result_free(&result_); }

  const std::string& address() const override { return address_; }
  uint64_t longest_value() override {
    return read_counters("settings").item_size_max - kLongestName - kItemOverhead;
  }

  void request(std::span<const std::string_view> names) override {
    names_ = names;
    if (names.empty()) return;
    pointers_.clear();
    lengths_.clear();
    for (const std::string_view name : names) {
      pointers_.push_back(name.data());
      lengths_.push_back(name.size());
    }
    check(reads_, memcached_mget(reads_.get(), pointers_.data(), lengths_.data(), names.size()));
  }

  // The server answers in the order of the names, and leaves out those that it does not have.
  void receive(const Visit& visit) override {
    if (names_.empty()) return;
    memcached_return_t rc = MEMCACHED_SUCCESS;
    size_t i = 0;
    while (memcached_fetch_result(reads_.get(), &result_, &rc) != nullptr) {
      const std::string_view name(memcached_result_key_value(&result_),
                                  memcached_result_key_length(&result_));
      while (i < names_.size() && names_[i] != name) ++i;
      if (i == names_.size())
        fail(ErrorCode::kUnavailable, "memcached server {} answered for a name that was not asked for",
             address_);
      visit(i++, {memcached_result_value(&result_), memcached_result_length(&result_)});
    }
    if (rc != MEMCACHED_END) check_unless_absent(reads_, rc);
  }

  void set(std::string_view name, std::string_view value) override {
    write(memcached_set(writes(), name.data(), name.size(), value.data(), value.size(), 0, 0));
    ++sets_;
    limit_unanswered(1, name);
  }
  void add(std::string_view name, std::string_view value) override {
    write(memcached_add(writes(), name.data(), name.size(), value.data(), value.size(), 0, 0));
    limit_unanswered(kUnansweredOfAdd, name);
  }

  void flush() override {
    if (writes_) check(writes_, memcached_flush_buffers(writes_.get()));
  }

  // Sent on the connection of the writes, whose requests the server carries out in order.
  Health barrier(std::string_view mark) override {
    Health health;
    health.mark = get_after_writes(mark);
    const Counters counters = read_counters(nullptr);
    health.evictions = counters.evictions;
    const uint64_t stored = counters.total_items - stored_;
    if (stored < sets_)
      health.refused_writes = fmt::format("it stored {} of {} values: it is out of memory", stored, sets_);
    stored_ = counters.total_items;
    sets_ = 0;
    return health;
  }

  void reconnect() override {
    if (const memcached_return_t rc = connect(); rc != MEMCACHED_SUCCESS) check(reads_, rc);
  }

 private:
  struct Counters {
    uint64_t evictions = 0, total_items = 0, item_size_max = 0;
  };

  // Waits until the server has answered once. Writes get their connection with the first write.
  memcached_return_t connect() {
    memcached_result_free(&result_);
    // Else it would wait for what the server still has to say.
    if (writes_) memcached_behavior_set(writes_.get(), MEMCACHED_BEHAVIOR_POLL_TIMEOUT, 0);
    writes_.reset();
    sets_ = 0;
    unanswered_ = 0;
    reads_ = make_handle(address_, login_, false, timeouts_.connect, timeouts_.connect);
    memcached_result_create(reads_.get(), &result_);
    const memcached_return_t rc = memcached_version(reads_.get());
    memcached_behavior_set(reads_.get(), MEMCACHED_BEHAVIOR_POLL_TIMEOUT,
                           static_cast<uint64_t>(timeouts_.answer.count()));
    return rc;
  }

  memcached_st* writes() {
    if (!writes_) {
      writes_ = make_handle(address_, login_, true, timeouts_.connect, timeouts_.answer);
      stored_ = read_counters(nullptr).total_items;
    }
    return writes_.get();
  }

  static memcached_return_t read_counter(const memcached_instance_st*, const char* key, size_t key_size,
                                         const char* value, size_t value_size, void* context) {
    auto& counters = *static_cast<Counters*>(context);
    const std::string_view name(key, key_size);
    uint64_t* const to = name == "evictions"       ? &counters.evictions
                         : name == "total_items"   ? &counters.total_items
                         : name == "item_size_max" ? &counters.item_size_max
                                                   : nullptr;
    if (to != nullptr) std::from_chars(value, value + value_size, *to);
    return MEMCACHED_SUCCESS;
  }

  Counters read_counters(const char* group) {
    Counters counters;
    memcached_st* const handle = writes();
    check(writes_, memcached_stat_execute(handle, group, read_counter, &counters));
    return counters;
  }

  // "" if there is none. Every write so far has been carried out by then, and what the server said to it been
  // read.
  std::string get_after_writes(std::string_view name) {
    size_t size = 0;
    uint32_t flags = 0;
    memcached_return_t rc = MEMCACHED_SUCCESS;
    const std::unique_ptr<char, decltype(&std::free)> value(
        memcached_get(writes(), name.data(), name.size(), &size, &flags, &rc), &std::free);
    check_unless_absent(writes_, rc);
    unanswered_ = 0;
    return value ? std::string(value.get(), size) : "";
  }

  void limit_unanswered(size_t more, std::string_view name) {
    unanswered_ += more;
    if (unanswered_ >= kMostUnanswered) get_after_writes(name);
  }

  void write(memcached_return_t rc) const {
    if (rc != MEMCACHED_BUFFERED) check(writes_, rc);
  }

  static std::string reason(const Handle& handle, memcached_return_t rc) {
    const int error = memcached_last_error_errno(handle.get());
    if (rc == MEMCACHED_SOME_ERRORS) rc = memcached_last_error(handle.get());
    const std::string text = memcached_strerror(handle.get(), rc);
    return error == 0 ? text : fmt::format("{} ({})", text, std::generic_category().message(error));
  }

  // libmemcached also says "not found" of an answer that broke off.
  void check_unless_absent(const Handle& handle, memcached_return_t rc) const {
    check(handle, rc == MEMCACHED_NOTFOUND ? memcached_last_error(handle.get()) : rc);
  }

  void check(const Handle& handle, memcached_return_t rc) const {
    if (rc != MEMCACHED_SUCCESS)
      fail(ErrorCode::kUnavailable, "memcached server {}: {}", address_, reason(handle, rc));
  }

  const std::string address_;
  const ServerTimeouts timeouts_;
  const ServerLogin login_;
  Handle reads_, writes_;  // writes_: null before the first write
  memcached_result_st result_{};
  std::span<const std::string_view> names_;  // of the request under way
  std::vector<const char*> pointers_;
  std::vector<size_t> lengths_;
  uint64_t sets_ = 0;      // since the last barrier
  size_t unanswered_ = 0;  // writes since the last answer, weighed
  uint64_t stored_ = 0;    // items that the server had counted at the last barrier
};

}  // namespace

KeyValueServers connect_memcached(const std::vector<std::string>& addresses, const ServerTimeouts& timeouts,
                                  const ServerLogin& login) {
  KeyValueServers servers;
  const std::shared_ptr<memcached_st> ring(memcached_create(nullptr), memcached_free);
  memcached_behavior_set(ring.get(), MEMCACHED_BEHAVIOR_DISTRIBUTION,
                         MEMCACHED_DISTRIBUTION_CONSISTENT_KETAMA);
  for (const std::string& text : addresses) {
    servers.all.push_back(std::make_unique<MemcachedServer>(text, timeouts, login));
    add_server(ring.get(), text);
  }
  servers.server_of = [ring](std::string_view name) -> size_t {
    return memcached_generate_hash(ring.get(), name.data(), name.size());
  };
  return servers;
}

}  // namespace embers::storage
