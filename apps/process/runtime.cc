#include "apps/process/runtime.h"

#include <sched.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/cpus.h"
#include "base/errors.h"
#include "base/log/standard_error.h"
#include "base/standard_streams.h"

namespace embers {

void restart_calls_after(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  action.sa_flags |= SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

void run_as_batch() {
  const sched_param none{};
  if (::sched_getscheduler(0) == SCHED_OTHER)
    ::sched_setscheduler(0, SCHED_BATCH, &none);  // helps, but is not needed
}

struct SignalWatch::Impl {
  explicit Impl(std::function<void(const std::string&)> stop) {
    signals.async_wait([this, stop = std::move(stop)](const auto& error, int signal) {
      if (error) return;
      stop(signal == SIGINT ? "SIGINT" : "SIGTERM");
      signals.async_wait([](const auto& again, int second) {
        if (again) return;
        say_last_words();
        ::_exit(128 + second);  // results that wait for their reader hold up nobody who wants to stop
      });
    });
    for (const int signal : {SIGINT, SIGTERM}) restart_calls_after(signal);
    thread = std::thread([this] { io.run(); });
  }
  ~Impl() {
    io.stop();
    thread.join();
  }

  boost::asio::io_context io{1};
  boost::asio::signal_set signals{io, SIGINT, SIGTERM};
  std::thread thread;
};

SignalWatch::SignalWatch(std::function<void(const std::string&)> stop)
    : impl_(std::make_unique<Impl>(std::move(stop))) {}

SignalWatch::~SignalWatch() = default;

struct ResizeWatch::Impl {
  explicit Impl(std::function<void()> resized) : resized(std::move(resized)) {
    wait();
    restart_calls_after(SIGWINCH);
    thread = std::thread([this] { io.run(); });
  }
  ~Impl() {
    io.stop();
    thread.join();
  }
  void wait() {
    signals.async_wait([this](const auto& error, int) {
      if (error) return;
      resized();
      wait();
    });
  }

  const std::function<void()> resized;
  boost::asio::io_context io{1};
  boost::asio::signal_set signals{io, SIGWINCH};
  std::thread thread;
};

ResizeWatch::ResizeWatch(std::function<void()> resized) : impl_(std::make_unique<Impl>(std::move(resized))) {}

ResizeWatch::~ResizeWatch() = default;

void end_process(int status) {
  say_last_words();
  try {
    flush_results();
  } catch (const Error& e) {
    say_error(e.what());
    say_last_words();
    if (status == 0) status = exit_status(e.code());
  }
  ::_exit(status);
}

std::vector<int> parse_pin(const std::string& list) {
  if (list.empty()) return {};
  return at_place("--pin", [&] { return parse_cpus(list, allowed_cpus()); });
}

}  // namespace embers
