// embers._core: embers::client for Python, and jobs within a process. What each function does is said in
// python/embers/_core.pyi.
#include <pybind11/pybind11.h>

#include "base/forks.h"
#include "python/src/calls/calls.h"
#include "python/src/calls/errors.h"
#include "python/src/calls/log.h"
#include "python/src/jobs/cluster.h"
#include "python/src/jobs/job_file.h"
#include "python/src/jobs/job_reader.h"
#include "python/src/jobs/local_job.h"
#include "python/src/session/joined.h"
#include "python/src/session/minibatch.h"
#include "python/src/session/session.h"
#include "python/src/values/columns.h"
#include "python/src/values/numeric.h"
#include "python/src/values/permutation.h"
#include "python/src/values/unique.h"
#include "python/src/values/unique_columns.h"

PYBIND11_MODULE(_core, module) {
  using namespace embers;
  using namespace embers::python;
  close_connections_in_children();
  queue_log();
  translate_errors();
  module.attr("__version__") = EMBERS_VERSION;
  module.def("fork_generation", &fork_generation,
             "How many forks are between the process that imported embers and this one.");
  module.def("drain_log", &hand_log_to_python, "Gives what the library has logged to Python's logging.");
  module.def(
      "end_all",
      [](double timeout) {
        const Deadline deadline = deadline_of(timeout);
        const bool have_left = close_sessions(deadline);
        const auto end = [timeout] { return Cluster::end_all(std::chrono::duration<double>(timeout)); };
        return run_interruptible<bool>(end) && have_left;
      },
      pybind11::arg("timeout"),
      "end_all(timeout) -> bool\n\nLeaves all jobs, and ends those of this process, also such that are "
      "nobody's any "
      "more. Whether that is done within this many seconds.");
  define_unique(module);
  define_unique_columns(module);
  define_columns(module);
  define_numeric(module);
  define_permutation(module);
  define_minibatch(module);
  define_session(module);
  define_job_reader(module);
  define_job_file(module);
  define_local_job(module);
}
