#include "apps/compute/python_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "apps/process/child.h"
#include "apps/process/program.h"
#include "base/errors.h"
#include "base/log/standard_error.h"

namespace embers {
namespace {

// Modules in the current directory must not stand in for the package's own, so it is taken from the path; the
// model is looked for there, too (embers/worker.py).
constexpr char kBootstrap[] = R"(
import sys
beside = sys.argv.pop(1)
sys.path[:] = [folder for folder in sys.path if folder]
try:
    try:
        import embers
    except ModuleNotFoundError:
        sys.path.append(beside)
    from embers.worker import main
except ImportError as e:
    print(f"embers: error: the model of this job is a Python module, but {sys.executable} cannot run it: {e}. Install the "
          "package embers for it (pip install ./python), and PyTorch, or name another interpreter in EMBERS_PYTHON",
          file=sys.stderr)
    sys.exit(2)
sys.exit(main(sys.argv[1:]))
)";

std::string interpreter() {
  const char* const given = std::getenv("EMBERS_PYTHON");
  return given == nullptr || *given == '\0' ? "python3" : given;
}

[[noreturn]] void fail_without(const std::string& python, const std::string& why) {
  fail(ErrorCode::kInvalid,
       "cannot start {}, which the model of this job, a Python module, needs: {}; name an interpreter in "
       "EMBERS_PYTHON",
       python, why);
}

}  // namespace

std::vector<std::string> python_command(const std::vector<std::string>& words) {
  std::vector<std::string> command{interpreter(), "-c", kBootstrap, program_beside("python")};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

std::vector<std::string> worker_words(const WorkerOptions& worker) {
  const JoinOptions& options = worker.join;
  std::vector<std::string> words{"work"};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--master", options.master);
  add("--job-dir", options.access.job_dir);
  add("--secret-file", options.access.secret_file);
  if (options.access.insecure) words.emplace_back("--insecure");
  for (const std::string& set : options.set) add("--set", set);
  add("--connect-timeout", fmt::format("{:g}", options.connect_timeout));
  if (worker.owner) words.emplace_back("--owner");
  for (const std::string& address : worker.listen) add("--listen", address);
  add("--advertise", worker.reached.advertise);
  add("--port-range", worker.reached.port_range);
  return words;
}

void become_python(const std::vector<std::string>& words) {
  const std::vector<std::string> command = python_command(words);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  say_last_words();
  inherit_only_standard_streams();
  ::execvp(argv.front(), argv.data());
  fail_without(command.front(), std::strerror(errno));
}

int run_python(const std::vector<std::string>& words, std::string& output) {
  namespace bp = boost::process;
  std::vector<std::string> command = python_command(words);
  bp::ipstream from;
  bp::child child(kFindInPath, bp::args(command), bp::std_in<bp::null, bp::std_out> from,
                  ends_with_this_process());
  output.append(std::istreambuf_iterator<char>(from), std::istreambuf_iterator<char>());
  child.wait();
  if (child.exit_code() == 127) fail_without(command.front(), "no such program");
  return child.exit_code();
}

}  // namespace embers
