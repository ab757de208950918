#include "python/src/calls/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <string>

#include "base/forks.h"

namespace embers::python {
namespace py = pybind11;
namespace {

constexpr size_t kMostLines =
    1000;  // of a program that calls nothing for long; beyond, the oldest are dropped

struct Line {
  int level;
  std::string text;
};

class Queue final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Without a lock: most calls find nothing.
  bool empty() const { return waiting_ == 0; }
  std::deque<Line> take(size_t& dropped) {
    const std::lock_guard lock(mutex_);
    dropped = std::exchange(dropped_, 0);
    waiting_ = 0;
    return std::exchange(lines_, {});
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines_.push_back({static_cast<int>(message.level), {message.payload.data(), message.payload.size()}});
    if (lines_.size() > kMostLines) {
      lines_.pop_front();
      ++dropped_;
    }
    waiting_ = lines_.size();
  }
  void flush_() override {}

 private:
  std::deque<Line> lines_;  // guarded by mutex_, as dropped_
  size_t dropped_ = 0;
  std::atomic<size_t> waiting_ = 0;
};

std::shared_ptr<Queue> queue;
uint64_t queue_generation = 0;

}  // namespace

void queue_log() {
  queue = std::make_shared<Queue>();
  queue_generation = fork_generation();
  const auto logger = std::make_shared<spdlog::logger>("embers", queue);
  logger->set_level(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

void hand_log_to_python() noexcept {
  // A forked child's copy may be locked for ever.
  if (queue == nullptr || queue_generation != fork_generation() || queue->empty()) return;
  const py::error_scope pending;  // of the call that is ending, if any
  try {
    size_t dropped = 0;
    const std::deque<Line> lines = queue->take(dropped);
    const py::object log = py::module_::import("embers.log");
    if (dropped > 0) log.attr("dropped")(dropped);
    for (const Line& line : lines)
      log.attr("line")(line.level,
                       py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
                           line.text.data(), static_cast<Py_ssize_t>(line.text.size()), "backslashreplace")));
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("embers: logging");
  } catch (const std::exception&) {  // out of memory: the lines are lost
  }
}

}  // namespace embers::python
