#include "apps/top/top.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "apps/control/control.h"
#include "apps/control/status_json.h"
#include "apps/process/runtime.h"
#include "apps/top/poller.h"
#include "apps/top/terminal.h"
#include "apps/top/view.h"
#include "apps/top/watcher.h"
#include "base/log/standard_error.h"
#include "client/joining/reach_master.h"

namespace embers {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 5s;  // for a connection, and for an answer
constexpr auto kRedraw = 1s;    // while no answer comes, its age grows
constexpr size_t kPlainColumns = 160;
constexpr size_t kPlainLines = 10'000;

struct Watched {
  client::AdminOptions options;
  std::string name;  // for people
};

Watched watched(const TopOptions& options) {
  Watched w{admin_options(options.join), ""};
  w.options.timeout = kPatience;
  JobLocation given;
  given.master = w.options.master;
  given.job_dir = w.options.job_dir;
  const JobLocation job = with_environment(given);
  w.name = job.master.empty() ? job.job_dir : job.master;
  return w;
}

// What is shown on a terminal until the job is over, or the user leaves.
class Screen {
 public:
  Screen(const Watched& watched, Poller::Interval interval)
      : terminal_(io_, text_of(std::getenv("TERM"))),
        watcher_(watched.name, interval, true, Clock::now()),
        signals_(io_, SIGINT, SIGTERM, SIGHUP),
        poller_(watched.options, interval, [this](Answer answer) {
          boost::asio::post(io_, [this, answer = std::move(answer)] { take(answer); });
        }) {
    for (const int signal : {SIGWINCH, SIGTSTP, SIGCONT}) signals_.add(signal);
  }

  // Returns when there is nothing more to show. The terminal is as before.
  Watcher::End run() {
    wait_for_signals();
    redraw_later();
    terminal_.on_keys([this](char key) { pressed(key); }, [this] { leave(128 + SIGHUP); });
    terminal_.enter();
    draw();
    io_.run();
    terminal_.leave();
    return end_;
  }

 private:
  static std::string text_of(const char* variable) { return variable == nullptr ? "" : variable; }

  void draw(bool anew = false) {
    const Terminal::Size size = terminal_.size();
    terminal_.show(render(watcher_.view(Clock::now()), size.columns, size.lines), anew);
  }
  void redraw_later() {
    timer_.expires_after(kRedraw);
    timer_.async_wait([this](const auto& error) {
      if (error) return;
      draw();
      redraw_later();
    });
  }
  void take(const Answer& answer) {
    watcher_.take(answer, Clock::now());
    if (!watcher_.end()) return draw();
    end_ = *watcher_.end();
    io_.stop();
  }
  void pressed(char key) {
    constexpr char kCtrlC = 3, kCtrlD = 4;
    if (key == 'q' || key == 'Q' || key == kCtrlC || key == kCtrlD) leave(0);
  }
  void leave(int status) {
    end_.status = status;
    io_.stop();
  }

  void wait_for_signals() {
    signals_.async_wait([this](const auto& error, int signal) {
      if (error) return;
      on_signal(signal);
      wait_for_signals();
    });
  }
  void on_signal(int signal) {
    switch (signal) {
      case SIGWINCH:
        return draw(true);
      case SIGTSTP:
        terminal_.leave();
        ::kill(::getpid(), SIGSTOP);
        return;
      case SIGCONT:  // also after somebody else has stopped this process
        terminal_.enter();
        return draw(true);
      case SIGINT:
        return leave(0);
      default:
        return leave(128 + signal);
    }
  }

  boost::asio::io_context io_{1};
  Terminal terminal_;
  Watcher watcher_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer timer_{io_};
  Watcher::End end_;
  Poller poller_;  // gives nothing once it is destroyed, which it is first
};

// The same for a pipe or a file, after each interval: the view as text, or the status as a line of JSON.
Watcher::End print(const Watched& watched, Poller::Interval interval, bool json) {
  Watcher watcher(watched.name, interval, false, Clock::now());
  client::Admin admin(watched.options);
  while (true) {
    const auto next = Clock::now() + std::chrono::duration_cast<Clock::duration>(interval);
    std::string text;
    try {
      const Status status = admin.status();
      watcher.take(status, Clock::now());
      if (json) text = json_text(status, -1) + '\n';
    } catch (const Error& e) {
      watcher.take(e, Clock::now());
    }
    if (watcher.end()) return *watcher.end();
    if (!json) {
      for (const Line& line : render(watcher.view(Clock::now()), kPlainColumns, kPlainLines))
        text += line.text.substr(0, line.text.find_last_not_of(' ') + 1) + '\n';
      text += '\n';
    }
    std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0) return {};  // whoever read it has gone
    std::this_thread::sleep_until(next);
  }
}

}  // namespace

int serve_top(const TopOptions& options) {
  std::setlocale(LC_CTYPE, "");  // what the terminal can show
  const Watched what = watched(options);
  const Poller::Interval interval(options.interval);
  if (options.json || !::isatty(STDOUT_FILENO)) {
    const Watcher::End end = print(what, interval, options.json);
    if (end.error) throw Error(*end.error);
    if (!end.text.empty() && !options.json) fmt::print("{}\n", end.text);
    return end.status;
  }
  spdlog::set_level(spdlog::level::off);  // the view says what is wrong, and lines would spoil it
  Watcher::End end;
  try {
    end = Screen(what, interval).run();
  } catch (const Error& e) {
    end = {"", e, exit_status(e.code())};
  }
  if (end.error) say_error(end.error->what());
  if (!end.text.empty()) fmt::print("{}\n", end.text);
  end_process(end.status);  // without waiting for an answer that is on its way
}

}  // namespace embers
