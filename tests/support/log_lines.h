#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/mutex.h"

namespace embers::testing_support {

// Keeps what this process logs, while it lives.
class LogLines {
 public:
  LogLines() {
    auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<Sink>(*this));
    spdlog::set_default_logger(logger);
  }
  ~LogLines() { spdlog::set_default_logger(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::vector<std::string> all() const {
    const MutexLock lock(mutex_);
    return lines_;
  }
  size_t count(const std::string& part) const {
    const auto lines = all();
    return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    }));
  }

 private:
  struct Sink final : spdlog::sinks::base_sink<std::mutex> {
    explicit Sink(LogLines& to) : to_(to) {}
    void sink_it_(const spdlog::details::log_msg& message) override {
      const MutexLock lock(to_.mutex_);
      to_.lines_.emplace_back(message.payload.data(), message.payload.size());
    }
    void flush_() override {}
    LogLines& to_;
  };

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  mutable Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace embers::testing_support
