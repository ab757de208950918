#include "apps/top/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstring>
#include <utility>

#include "apps/process/shown_text.h"
#include "base/errors.h"

namespace embers {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Sequences of ECMA-48 and xterm, which every terminal of today knows.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[2J";  // another screen, no cursor, empty
constexpr char kLeave[] = "\033[0m\033[?25h\033[?1049l";
constexpr char kHome[] = "\033[H";
constexpr char kEraseAll[] = "\033[2J";
constexpr char kEraseLine[] = "\033[K";   // from the cursor on
constexpr char kEraseBelow[] = "\033[J";  // likewise
constexpr char kCancel[] = "\030";        // a sequence that was cut off
constexpr auto kLastWrite = 1s;

// --- crashes ---------------------------------------------------------------------------------------

constexpr std::array kCrashes{SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// The terminal that a crash is to leave: set before the handlers are there, never changed afterwards.
struct Crash {
  int terminal = -1;
  termios settings{};
  std::array<struct sigaction, kCrashes.size()> before{};
} crash;

// Calls only what a handler of a signal may call. Whoever handled the signal before has the last word.
void on_crash(int signal) {
  [[maybe_unused]] const ssize_t written = ::write(crash.terminal, kLeave, sizeof kLeave - 1);
  ::tcsetattr(crash.terminal, TCSANOW, &crash.settings);
  for (size_t i = 0; i < kCrashes.size(); ++i)
    if (kCrashes[i] == signal) ::sigaction(signal, &crash.before[i], nullptr);
  ::raise(signal);  // takes effect when this handler returns
}

void leave_in_crashes(int terminal, const termios& settings) {
  crash.terminal = terminal;
  crash.settings = settings;
  for (size_t i = 0; i < kCrashes.size(); ++i) {
    struct sigaction action {};
    ::sigaction(kCrashes[i], nullptr, &crash.before[i]);
    action = crash.before[i];
    action.sa_flags &= ~SA_SIGINFO;
    action.sa_handler = on_crash;
    ::sigaction(kCrashes[i], &action, nullptr);
  }
}

// ---------------------------------------------------------------------------------------------------

// Opened once more, so that whoever shares standard output does not find it non-blocking.
int open_terminal() {
  char name[256];
  if (::ttyname_r(STDOUT_FILENO, name, sizeof name) == 0)
    if (const int fd = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC); fd >= 0) return fd;
  const int fd = ::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);  // as after `su`
  if (fd < 0) fail(ErrorCode::kInvalid, "cannot open the terminal: {}", std::strerror(errno));
  return fd;
}

const char* begin_of(Line::Style style) {
  switch (style) {
    case Line::Style::kTitle:
      return "\033[7m";  // reverse
    case Line::Style::kHeads:
      return "\033[1m";  // bold
    case Line::Style::kBad:
      return "\033[1;31m";  // bold red
    default:
      return "";
  }
}

}  // namespace

Terminal::Terminal(boost::asio::io_context& io, const std::string& type) : terminal_(io) {
  if (type.empty() || type == "dumb")
    fail(ErrorCode::kInvalid,
         "this terminal cannot show a live view (TERM is '{}'): use embers status, or embers top | cat",
         type);
  fd_ = open_terminal();
  terminal_.assign(fd_);
  if (::tcgetattr(fd_, &before_) != 0)
    fail(ErrorCode::kInvalid, "the terminal does not tell its settings: {}", std::strerror(errno));
  leave_in_crashes(fd_, before_);
}

void Terminal::enter() {
  if (!std::exchange(entered_, true)) ::tcgetattr(fd_, &before_);
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C and Ctrl-Z stay signals
  keys.c_cc[VMIN] = 1;
  keys.c_cc[VTIME] = 0;
  ::tcsetattr(fd_, TCSANOW, &keys);
  fresh_ = true;
}

void Terminal::leave() {
  if (!std::exchange(entered_, false)) return;
  next_.clear();
  const bool cut_off = !writing_.empty();
  if (cut_off) {
    boost::system::error_code ignored;
    terminal_.cancel(ignored);
  }
  if (!std::exchange(fresh_, false)) write_now(cut_off ? std::string(kCancel) + kLeave : kLeave);
  ::tcsetattr(fd_, TCSANOW, &before_);
}

Terminal::Size Terminal::size() const {
  winsize size{};
  Size s;
  if (::ioctl(fd_, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) s.columns = size.ws_col;
    if (size.ws_row > 0) s.lines = size.ws_row;
  }
  return s;
}

void Terminal::show(const std::vector<Line>& lines, bool anew) {
  if (!entered_) return;
  const size_t columns = size().columns;
  std::string frame;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) frame += "\r\n";
    if (i + 1 == lines.size()) frame += kEraseBelow;
    const char* const style = begin_of(lines[i].style);
    frame += style + lines[i].text + (*style != 0 ? "\033[0m" : "");
    // After the last column the cursor is still on it, and would erase it.
    if (columns_of(lines[i].text) < columns) frame += kEraseLine;
  }
  next_ = std::move(frame);
  anew_ |= anew;
  if (writing_.empty()) write_next();
}

void Terminal::write_next() {
  if (std::exchange(fresh_, false)) writing_ = kEnter;
  if (std::exchange(anew_, false)) writing_ += kEraseAll;
  writing_ += kHome + std::exchange(next_, "");
  boost::asio::async_write(terminal_, boost::asio::buffer(writing_), [this](const auto& error, size_t) {
    writing_.clear();
    const bool gone = error && error != boost::asio::error::operation_aborted;
    if (!gone && entered_ && !next_.empty()) write_next();
  });
}

void Terminal::write_now(std::string_view text) {
  const auto deadline = Clock::now() + kLastWrite;
  while (!text.empty() && Clock::now() < deadline) {
    pollfd writable{fd_, POLLOUT, 0};
    ::poll(&writable, 1, 100);
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n > 0)
      text.remove_prefix(static_cast<size_t>(n));
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
      return;
  }
}

void Terminal::on_keys(std::function<void(char)> pressed, std::function<void()> gone) {
  pressed_ = std::move(pressed);
  gone_ = std::move(gone);
  read_keys();
}

void Terminal::read_keys() {
  terminal_.async_read_some(boost::asio::buffer(&key_, 1), [this](const auto& error, size_t) {
    if (error == boost::asio::error::operation_aborted) return read_keys();  // by leave()
    if (error) return gone_();
    pressed_(key_);
    read_keys();
  });
}

}  // namespace embers
