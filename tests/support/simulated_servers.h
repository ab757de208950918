#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "schema/ids.h"
#include "storage/external/key_value_server.h"
#include "tests/support/simulated_disk.h"

namespace embers::testing_support {

// Servers of keys and values in memory, which outlive the simulated processes that use them. Of what a
// process has not yet sent when it dies, some may still be carried out, in order. *Thread safety*: none.
class SimulatedServers {
 public:
  explicit SimulatedServers(size_t n) : values_(n) {}

  // As one process reaches them.
  storage::KeyValueServers connect(const SimulatedHost::ProcessPtr& process) {
    storage::KeyValueServers servers;
    for (size_t i = 0; i < values_.size(); ++i)
      servers.all.push_back(std::make_unique<Server>("simulated:" + std::to_string(i), &values_[i], process));
    servers.server_of = [n = values_.size()](std::string_view name) { return hash_key(name) % n; };
    return servers;
  }

 private:
  using Values = std::map<std::string, std::string, std::less<>>;

  class Server final : public storage::KeyValueServer {
   public:
    Server(std::string address, Values* values, SimulatedHost::ProcessPtr process)
        : address_(std::move(address)), values_(values), process_(std::move(process)) {}

    const std::string& address() const override { return address_; }
    uint64_t longest_value() override { return 1 << 20; }

    void request(std::span<const std::string_view> names) override { asked_ = names; }
    void receive(const Visit& visit) override {
      flush();
      for (size_t i = 0; i < asked_.size(); ++i)
        if (const auto found = values_->find(asked_[i]); found != values_->end()) visit(i, found->second);
    }

    void set(std::string_view name, std::string_view value) override {
      writes_.push_back({std::string(name), std::string(value), true});
    }
    void add(std::string_view name, std::string_view value) override {
      writes_.push_back({std::string(name), std::string(value), false});
    }
    void flush() override {
      send(process_->dies_next() ? process_->pick(writes_.size() + 1) : writes_.size());
      process_->change();
    }

    Health barrier(std::string_view mark) override {
      flush();
      const auto found = values_->find(mark);
      return {found == values_->end() ? "" : found->second, 0, ""};
    }
    void reconnect() override { writes_.clear(); }

   private:
    struct Write {
      std::string name, value;
      bool replaces = false;
    };
    void send(size_t n) {
      for (size_t i = 0; i < n; ++i)
        if (writes_[i].replaces)
          (*values_)[writes_[i].name] = std::move(writes_[i].value);
        else
          values_->try_emplace(writes_[i].name, std::move(writes_[i].value));
      writes_.erase(writes_.begin(), writes_.begin() + static_cast<ptrdiff_t>(n));
    }

    const std::string address_;
    Values* const values_;
    const SimulatedHost::ProcessPtr process_;
    std::span<const std::string_view> asked_;
    std::vector<Write> writes_;  // not yet sent
  };

  std::vector<Values> values_;
};

}  // namespace embers::testing_support
