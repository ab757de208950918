#pragma once

#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/io.hpp>
#include <system_error>

// What Boost.Process does not do for the children of this process.
namespace embers {

// Runs the program that its first argument names, found in PATH; boost::process::search_path would do the
// same, but needs Boost.Filesystem's shared library.
inline constexpr char kFindInPath[] = "/usr/bin/env";
// Whether the program that it should run could not be started.
inline bool was_not_found(boost::process::child& child) {
  return !child.running() && child.exit_code() == 127;
}

// Between fork and exec: the new program gets no files and sockets of this process but the standard streams.
// Asio's listening sockets would go to it, and stay open for as long as it runs.
inline void inherit_only_standard_streams() {
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // Linux 5.11; older ones leave them open
}

// For boost::process::child: the process is killed when the thread that started it ends, and so with this
// process, however that ends. It inherits only the standard streams. Then runs `then`, between fork and exec.
template <class Then>
auto ends_with_this_process(Then then) {
  return boost::process::extend::on_exec_setup = [parent = ::getpid(), then](auto&) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // the parent has ended meanwhile
    inherit_only_standard_streams();
    then();
  };
}
inline auto ends_with_this_process() {
  return ends_with_this_process([] {});
}

// Kills it if it still runs, and waits until it is gone, which boost::process::child::terminate() does not.
inline void end(boost::process::child& child) {
  std::error_code gone;  // also where somebody else has waited for it
  if (!child.valid() || !child.running(gone)) return;
  ::kill(child.id(), SIGKILL);
  child.wait(gone);
}

}  // namespace embers
