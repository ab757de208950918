#include "base/log/standard_error.h"

#include <fmt/chrono.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <exception>

namespace embers {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeforeResults = 1s;
constexpr auto kBeforeTheEnd = 2s;
constexpr auto kForErrors = 1s;
constexpr auto kInACrash = 2s;

std::atomic<const LogWriter*> for_signals = nullptr;  // standard_error(), once something was said

void on_crash(int signal) {
  if (const LogWriter* const writer = for_signals) writer->wait_in_signal_handler(kInACrash);
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // takes effect when this handler returns
}

// The library's own handler would wait for whoever reads standard error.
[[noreturn]] void on_terminate() {
  try {
    if (const auto exception = std::current_exception()) std::rethrow_exception(exception);
    say_error("the program ended itself (std::terminate)");
  } catch (const std::exception& e) {
    say_error(fmt::format("uncaught exception: {}", e.what()));
  } catch (...) {
    say_error("uncaught exception");
  }
  std::abort();
}

}  // namespace

LogWriter& standard_error() {
  static LogWriter* const writer = [] {
    // Never destroyed: other threads may have something to say while the process ends.
    auto* const made = new LogWriter(STDERR_FILENO, "standard error");
    for_signals = made;
    return made;
  }();
  return *writer;
}

std::string at_present(std::string_view line) {
  return fmt::format("{:%H:%M:%S} {}", fmt::localtime(std::time(nullptr)), line);
}

void say_error(std::string_view what) { standard_error().error(fmt::format("embers: error: {}", what)); }

void flush_standard_error() { standard_error().flush(kBeforeResults); }

void say_last_words() {
  LogWriter& writer = standard_error();
  writer.end_progress();
  if (writer.flush(kBeforeTheEnd)) return;
  writer.make_way_for_errors();
  writer.flush(kForErrors);
}

void say_last_words_in_crashes() {
  std::set_terminate(on_terminate);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_DFL) continue;  // a sanitizer's
    action.sa_handler = on_crash;
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace embers
