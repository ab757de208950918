#include "bench/storage/store_connection.h"

#include <hiredis/hiredis.h>
#include <libmemcached/memcached.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/errors.h"

namespace embers {
namespace {

constexpr size_t kValueBytes = kStoredNumbers * sizeof(float);

const char* bytes_of(const int64_t& key) { return reinterpret_cast<const char*>(&key); }

class RedisConnection final : public StoreConnection {
 public:
  explicit RedisConnection(const std::string& path) : context_(redisConnectUnix(path.c_str())) {
    if (!context_ || context_->err != 0)
      fail(ErrorCode::kUnavailable, "cannot reach redis at {}: {}", path,
           context_ ? context_->errstr : "no memory");
  }

  void fill(KeySpan keys, const std::vector<float>& value) override {
    begin("MSET");
    for (const int64_t& key : keys) {
      add(bytes_of(key), sizeof key);
      add(reinterpret_cast<const char*>(value.data()), kValueBytes);
    }
    end();
    expect_stored();
  }

  // All reads are sent first: while the server reads the rows of a chunk, those before it are changed.
  void update(KeySpan keys, size_t chunk, const Change& change) override {
    for (size_t first = 0; first < keys.size(); first += chunk) {
      begin("MGET");
      for (const int64_t& key : part(keys, first, chunk)) add(bytes_of(key), sizeof key);
      end();
    }
    for (size_t first = 0; first < keys.size(); first += chunk) {
      const KeySpan some = part(keys, first, chunk);
      const Reply reply = read();
      if (reply->type != REDIS_REPLY_ARRAY || reply->elements != some.size())
        fail(ErrorCode::kInternal, "redis does not answer MGET: {}",
             reply->str ? reply->str : "too few values");
      begin("MSET");
      for (size_t i = 0; i < some.size(); ++i) {
        const redisReply& value = *reply->element[i];
        if (value.type != REDIS_REPLY_STRING || value.len != kValueBytes)
          fail(ErrorCode::kInternal, "redis has no row of key {}", some[i]);
        change(first + i, reinterpret_cast<float*>(value.str));
        add(bytes_of(some[i]), sizeof some[i]);
        add(value.str, value.len);
      }
      end();
      int is_written = 0;
      redisBufferWrite(context_.get(), &is_written);
    }
    for (size_t first = 0; first < keys.size(); first += chunk) expect_stored();
  }

 private:
  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
  };
  using Reply = std::unique_ptr<redisReply, Free>;

  static KeySpan part(KeySpan keys, size_t first, size_t chunk) {
    return keys.subspan(first, std::min(chunk, keys.size() - first));
  }
  void begin(const char* command) {
    words_.clear();
    lengths_.clear();
    add(command, std::strlen(command));
  }
  void add(const char* word, size_t length) {
    words_.push_back(word);
    lengths_.push_back(length);
  }
  void end() {
    redisAppendCommandArgv(context_.get(), static_cast<int>(words_.size()), words_.data(), lengths_.data());
  }
  Reply read() {
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK)
      fail(ErrorCode::kUnavailable, "redis: {}", context_->errstr);
    return Reply(static_cast<redisReply*>(reply));
  }
  void expect_stored() {
    const Reply reply = read();
    if (reply->type != REDIS_REPLY_STATUS)
      fail(ErrorCode::kInternal, "redis does not store rows: {}", reply->str ? reply->str : "no status");
  }

  const std::unique_ptr<redisContext, Free> context_;
  std::vector<const char*> words_;
  std::vector<size_t> lengths_;
};

// A handle for reads and one for buffered writes without answers: as fast as libmemcached gets.
class MemcachedConnection final : public StoreConnection {
 public:
  explicit MemcachedConnection(const std::string& path) {
    for (memcached_st* const handle : {reads_.get(), writes_.get()}) {
      memcached_server_add_unix_socket(handle, path.c_str());
      memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1);
    }
    memcached_behavior_set(writes_.get(), MEMCACHED_BEHAVIOR_NOREPLY, 1);
    memcached_behavior_set(writes_.get(), MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1);
  }

  void fill(KeySpan keys, const std::vector<float>& value) override {
    for (const int64_t& key : keys) set(key, value.data());
    wait_for_writes(keys[0]);
  }

  void update(KeySpan keys, size_t chunk, const Change& change) override {
    values_.resize(std::min(chunk, keys.size()) * kStoredNumbers);
    for (size_t first = 0; first < keys.size(); first += chunk) {
      const KeySpan some = keys.subspan(first, std::min(chunk, keys.size() - first));
      get(some);
      for (size_t i = 0; i < some.size(); ++i) {
        float* const value = values_.data() + i * kStoredNumbers;
        change(first + i, value);
        set(some[i], value);
      }
    }
    wait_for_writes(keys[0]);
  }

 private:
  struct Free {
    void operator()(memcached_st* handle) const { memcached_free(handle); }
  };

  // Into values_. The server answers in order of the keys.
  void get(KeySpan keys) {
    pointers_.clear();
    lengths_.assign(keys.size(), sizeof(int64_t));
    for (const int64_t& key : keys) pointers_.push_back(bytes_of(key));
    check(memcached_mget(reads_.get(), pointers_.data(), lengths_.data(), keys.size()));
    memcached_result_st result;
    memcached_result_create(reads_.get(), &result);
    size_t got = 0;
    memcached_return_t rc = MEMCACHED_SUCCESS;
    while (memcached_fetch_result(reads_.get(), &result, &rc) != nullptr && got < keys.size()) {
      if (memcached_result_length(&result) != kValueBytes ||
          std::memcmp(memcached_result_key_value(&result), pointers_[got], sizeof(int64_t)) != 0)
        break;
      std::memcpy(values_.data() + got++ * kStoredNumbers, memcached_result_value(&result), kValueBytes);
    }
    memcached_result_free(&result);
    if (got != keys.size()) fail(ErrorCode::kInternal, "memcached has no row of key {}", keys[got]);
  }
  void set(const int64_t& key, const float* value) {
    const memcached_return_t rc = memcached_set(writes_.get(), bytes_of(key), sizeof key,
                                                reinterpret_cast<const char*>(value), kValueBytes, 0, 0);
    if (rc != MEMCACHED_BUFFERED) check(rc);
  }
  // A read behind the writes, on their connection.
  void wait_for_writes(const int64_t& key) {
    size_t size = 0;
    uint32_t flags = 0;
    memcached_return_t rc = MEMCACHED_SUCCESS;
    std::free(memcached_get(writes_.get(), bytes_of(key), sizeof key, &size, &flags, &rc));
    check(rc);
  }
  static void check(memcached_return_t rc) {
    if (rc != MEMCACHED_SUCCESS) fail(ErrorCode::kInternal, "memcached: {}", memcached_strerror(nullptr, rc));
  }

  const std::unique_ptr<memcached_st, Free> reads_{memcached_create(nullptr)},
      writes_{memcached_create(nullptr)};
  std::vector<const char*> pointers_;
  std::vector<size_t> lengths_;
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<StoreConnection> connect_store(const std::string& kind, const std::string& path) {
  if (kind == "redis") return std::make_unique<RedisConnection>(path);
  return std::make_unique<MemcachedConnection>(path);
}

}  // namespace embers
