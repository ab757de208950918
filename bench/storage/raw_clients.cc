#include "bench/storage/raw_clients.h"

#include <hiredis/hiredis.h>
#include <libmemcached/memcached.h>

#include <cstdlib>

#include "base/errors.h"

namespace embers {
namespace {

// A connection for reads and one for buffered writes without answers: as fast as libmemcached gets.
class RawMemcached final : public RawClient {
 public:
  RawMemcached(const std::string& host, uint16_t port, const std::string& user, const std::string& password) {
    for (memcached_st* const handle : {reads_.get(), writes_.get()}) {
      if (host.starts_with('/'))
        memcached_server_add_unix_socket(handle, host.c_str());
      else
        memcached_server_add(handle, host.c_str(), port);
      memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, 1);
      memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
      if (!password.empty()) memcached_set_sasl_auth_data(handle, user.c_str(), password.c_str());
    }
    memcached_behavior_set(writes_.get(), MEMCACHED_BEHAVIOR_NOREPLY, 1);
    memcached_behavior_set(writes_.get(), MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1);
  }

  void get(std::span<const std::string> names, std::span<std::string> values) override {
    pointers_.clear();
    lengths_.clear();
    for (const std::string& name : names) {
      pointers_.push_back(name.data());
      lengths_.push_back(name.size());
    }
    memcached_return_t rc = memcached_mget(reads_.get(), pointers_.data(), lengths_.data(), names.size());
    memcached_result_st result;
    memcached_result_create(reads_.get(), &result);
    size_t got = 0;
    while (memcached_fetch_result(reads_.get(), &result, &rc) != nullptr)
      values[got++].assign(memcached_result_value(&result), memcached_result_length(&result));
    memcached_result_free(&result);
    if (got != names.size())
      fail(ErrorCode::kInternal, "raw libmemcached got {} of {} values", got, names.size());
  }

  void set(const std::vector<std::string>& names, const std::vector<std::string>& values) override {
    for (size_t i = 0; i < names.size(); ++i)
      memcached_set(writes_.get(), names[i].data(), names[i].size(), values[i].data(), values[i].size(), 0,
                    0);
    size_t size;
    uint32_t flags;
    memcached_return_t rc;
    std::free(memcached_get(writes_.get(), names[0].data(), names[0].size(), &size, &flags, &rc));
    if (rc != MEMCACHED_SUCCESS)
      fail(ErrorCode::kInternal, "raw libmemcached: {}", memcached_strerror(nullptr, rc));
  }

 private:
  struct Free {
    void operator()(memcached_st* handle) const { memcached_free(handle); }
  };
  const std::unique_ptr<memcached_st, Free> reads_{memcached_create(nullptr)},
      writes_{memcached_create(nullptr)};
  std::vector<const char*> pointers_;
  std::vector<size_t> lengths_;
};

class RawRedis final : public RawClient {
 public:
  RawRedis(const std::string& host, uint16_t port, const std::string& user, const std::string& password)
      : context_(host.starts_with('/') ? redisConnectUnix(host.c_str()) : redisConnect(host.c_str(), port)) {
    if (password.empty()) return;
    pointers_ = {"AUTH", user.c_str(), password.c_str()};
    lengths_ = {4, user.size(), password.size()};
    append();
    freeReplyObject(read());
  }

  void get(std::span<const std::string> names, std::span<std::string> values) override {
    pointers_.assign({"MGET"});
    lengths_.assign({4});
    for (const std::string& name : names) {
      pointers_.push_back(name.data());
      lengths_.push_back(name.size());
    }
    append();
    redisReply* const reply = read();
    for (size_t i = 0; i < reply->elements; ++i)
      values[i].assign(reply->element[i]->str, reply->element[i]->len);
    freeReplyObject(reply);
  }

  void set(const std::vector<std::string>& names, const std::vector<std::string>& values) override {
    for (size_t i = 0; i < names.size(); ++i) {
      pointers_.assign({"SET", names[i].data(), values[i].data()});
      lengths_.assign({3, names[i].size(), values[i].size()});
      append();
    }
    for (size_t i = 0; i < names.size(); ++i) freeReplyObject(read());
  }

 private:
  struct Free {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  void append() {
    redisAppendCommandArgv(context_.get(), static_cast<int>(pointers_.size()), pointers_.data(),
                           lengths_.data());
  }
  redisReply* read() {
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK)
      fail(ErrorCode::kInternal, "raw hiredis: {}", context_->errstr);
    return static_cast<redisReply*>(reply);
  }

  const std::unique_ptr<redisContext, Free> context_;
  std::vector<const char*> pointers_;
  std::vector<size_t> lengths_;
};

}  // namespace

std::unique_ptr<RawClient> raw_memcached(const std::string& host, uint16_t port, const std::string& user,
                                         const std::string& password) {
  return std::make_unique<RawMemcached>(host, port, user, password);
}
std::unique_ptr<RawClient> raw_redis(const std::string& host, uint16_t port, const std::string& user,
                                     const std::string& password) {
  return std::make_unique<RawRedis>(host, port, user, password);
}

}  // namespace embers
