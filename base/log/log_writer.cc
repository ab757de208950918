#include "base/log/log_writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace embers {
namespace {

using Clock = std::chrono::steady_clock;

// Of a terminal. The cursor waits at the begin of a progress line: when the terminal narrows, so that the
// line takes several of its rows, everything from the cursor on is the line.
constexpr char kEraseLine[] = "\r\033[J";
constexpr size_t kUsualColumns = 80;
constexpr auto kLastWords = std::chrono::seconds(1);

enum class Kind : uint8_t { kLine, kError, kProgress, kEndOfProgress };

struct Entry {
  uint64_t number;  // 1, 2, ... in the order in which they were said
  Kind kind;
  std::string text;
  bool counts() const { return kind == Kind::kLine || kind == Kind::kError; }
};

// Why the last write failed, or 0. A descriptor may be non-blocking, since it is shared with other processes.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

struct LogWriter::State {
  State(int fd, std::string name, Limits limits)
      : fd(fd), name(std::move(name)), limits(limits), terminal(::isatty(fd)) {}

  void add(Kind kind, std::string text, const std::shared_ptr<State>& self) {
    const MutexLock lock(mutex);
    if (kind == Kind::kEndOfProgress && !started) return;
    if (kind == Kind::kProgress || kind == Kind::kEndOfProgress)
      remove_first([](const Entry& e) { return e.kind == Kind::kProgress; });
    bytes += text.size();
    waiting.push_back({++last_number, kind, std::move(text)});
    while (waiting.size() > 1 && (waiting.size() > limits.lines || bytes > limits.bytes)) drop_one();
    count();
    if (!started) start(self);
    changed.notify_all();
  }

  void start(const std::shared_ptr<State>& self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    try {
      std::thread(run, self).detach();
      started = true;
    } catch (const std::exception&) {  // too many threads, or no memory for one: it may be what is being said
      for (; !waiting.empty(); waiting.pop_front()) write_all(fd, render(waiting.front()));
      bytes = 0;
      count();
    }
  }

  template <class Condition>
  bool remove_first(Condition condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto found = std::find_if(waiting.begin(), waiting.end(), condition);
    if (found == waiting.end()) return false;
    bytes -= found->text.size();
    too_slow += found->counts();
    waiting.erase(found);
    return true;
  }

  // The oldest one that is no error. The newest one stays.
  void drop_one() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const uint64_t newest = waiting.back().number;
    remove_first([&](const Entry& e) { return e.kind != Kind::kError && e.number != newest; }) ||
        remove_first([](const Entry&) { return true; });
  }

  void count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { open = waiting.size() + (being_written != 0); }

  // What the reader is told of lines that it misses.
  std::string notices() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto lines = [](uint64_t n) { return n == 1 ? "1 line was" : fmt::format("{} lines were", n); };
    std::string text;
    if (too_slow > 0)
      text += fmt::format("… {} dropped, because whoever reads {} is slow\n", lines(too_slow), name);
    if (unwritable > 0)
      text += fmt::format("… {} dropped, because {} could not be written: {}\n", lines(unwritable), name,
                          std::strerror(why));
    return text;
  }

  std::string render(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::string text = std::exchange(bar_shown, false) ? kEraseLine : "";
    text += notices();
    if (entry.kind == Kind::kEndOfProgress) return text;
    bar_shown = terminal && entry.kind == Kind::kProgress;
    return text + entry.text + (bar_shown ? "\r" : "\n");
  }

  const int fd;
  const std::string name;
  const Limits limits;
  const bool terminal;
  Mutex mutex;
  std::condition_variable changed;  // something was added, written, dropped, or stop
  std::deque<Entry> waiting ABSL_GUARDED_BY(mutex);
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;  // of their texts
  uint64_t last_number ABSL_GUARDED_BY(mutex) = 0;
  uint64_t being_written ABSL_GUARDED_BY(mutex) = 0;  // number, or 0
  // Lines that the reader misses and was not told of.
  uint64_t too_slow ABSL_GUARDED_BY(mutex) = 0;
  uint64_t unwritable ABSL_GUARDED_BY(mutex) = 0;
  int why ABSL_GUARDED_BY(mutex) = 0;  // the last one was unwritable: errno
  bool bar_shown ABSL_GUARDED_BY(mutex) = false;
  bool started ABSL_GUARDED_BY(mutex) = false;
  bool stop ABSL_GUARDED_BY(mutex) = false;
  std::atomic<size_t> open = 0;  // waiting or being written
};

LogWriter::LogWriter(int fd, std::string name, Limits limits)
    : state_(std::make_shared<State>(fd, std::move(name), limits)) {}

LogWriter::~LogWriter() {
  flush(kLastWords);
  const MutexLock lock(state_->mutex);
  state_->stop = true;
  state_->waiting.clear();
  state_->changed.notify_all();
}

void LogWriter::line(std::string text) { state_->add(Kind::kLine, std::move(text), state_); }
void LogWriter::error(std::string text) { state_->add(Kind::kError, std::move(text), state_); }
void LogWriter::progress(std::string text) { state_->add(Kind::kProgress, std::move(text), state_); }
void LogWriter::end_progress() {
  if (state_->terminal) state_->add(Kind::kEndOfProgress, "", state_);
}
bool LogWriter::is_terminal() const { return state_->terminal; }
size_t LogWriter::columns() const {
  winsize size{};
  const bool known = ::ioctl(state_->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
}

bool LogWriter::flush(std::chrono::milliseconds most) {
  State& s = *state_;
  const Clock::time_point deadline = Clock::now() + most;
  MutexLock lock(s.mutex);
  const uint64_t last = s.last_number;
  const auto is_open = [last](uint64_t number) { return number != 0 && number <= last; };
  while (is_open(s.being_written) || (!s.waiting.empty() && is_open(s.waiting.front().number))) {
    if (Clock::now() >= deadline) return false;
    lock.wait_until(s.changed, deadline);
  }
  return true;
}

void LogWriter::make_way_for_errors() {
  State& s = *state_;
  const MutexLock lock(s.mutex);
  const auto is_error = [](const Entry& e) { return e.kind == Kind::kError; };
  if (std::none_of(s.waiting.begin(), s.waiting.end(), is_error)) return;
  while (s.remove_first([&](const Entry& e) { return !is_error(e); })) {
  }
  s.count();
  s.changed.notify_all();
}

void LogWriter::wait_in_signal_handler(std::chrono::milliseconds most) const {
  constexpr std::chrono::milliseconds kStep(5);
  const timespec step{0, std::chrono::nanoseconds(kStep).count()};
  for (std::chrono::milliseconds waited{}; state_->open > 0 && waited < most; waited += kStep)
    ::nanosleep(&step, nullptr);
}

// Holds the mutex except while it waits or writes.
void LogWriter::run(const std::shared_ptr<State>& state) {
  // Handlers run in other threads; a reader that has gone is an error of write(), not a signal.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  State& s = *state;
  MutexLock lock(s.mutex);
  while (true) {
    while (s.waiting.empty() && !s.stop) lock.wait(s.changed);
    if (s.waiting.empty()) return;
    const Entry entry = std::move(s.waiting.front());
    s.waiting.pop_front();
    s.bytes -= entry.text.size();
    const std::string text = s.render(entry);
    const uint64_t slow = s.too_slow, failed = s.unwritable;  // the text tells of these
    s.being_written = entry.number;
    lock.unlock();
    const int error = write_all(s.fd, text);
    lock.lock();
    s.being_written = 0;
    if (error == 0) {
      s.too_slow -= slow;
      s.unwritable -= failed;
    } else {
      s.unwritable += entry.counts();
      s.why = error;
    }
    s.count();
    s.changed.notify_all();
  }
}

}  // namespace embers
