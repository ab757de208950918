#include "python/src/jobs/local_job.h"

#include <pybind11/stl.h>

#include "python/src/calls/calls.h"
#include "python/src/jobs/cluster.h"

namespace embers::python {
namespace py = pybind11;
namespace {

class LocalJob {
 public:
  LocalJob(std::string job, std::string output, std::string resume) {
    const Call call(generation_);
    cluster_ = run_interruptible<std::shared_ptr<Cluster>>(
        [options = ClusterOptions{std::move(job), std::move(output), std::move(resume)}] {
          return std::make_shared<Cluster>(options);
        });
  }
  ~LocalJob() {
    if (generation_ == fork_generation())
      run_in_helper([cluster = std::move(cluster_)] {});  // it asks the job to end
    else
      new std::shared_ptr<Cluster>(std::move(cluster_));  // the parent's: left alone
  }
  LocalJob(const LocalJob&) = delete;
  LocalJob& operator=(const LocalJob&) = delete;

  const std::string& address() const { return cluster_->address(); }

  bool wait_for_end(const std::optional<double>& timeout) {
    const Call call(generation_);
    return wait_in_slices(deadline_of(timeout), [&](auto slice) { return cluster_->wait_for_end(slice); });
  }

  void close() {
    const Call call(generation_);
    cluster_->stop();
    wait_in_slices(std::nullopt, [&](auto slice) { return cluster_->wait_for_end(slice); });
    if (const auto error = cluster_->error()) throw Error(*error);
  }

  std::string report() {
    const Call call(generation_);
    if (!cluster_->wait_for_end(std::chrono::seconds(0)))
      fail(ErrorCode::kInvalid, "the job has not ended: close it before its report is asked for");
    return cluster_->report();
  }

 private:
  const uint64_t generation_ = fork_generation();
  std::shared_ptr<Cluster> cluster_;
};

}  // namespace

void define_local_job(py::module_& module) {
  py::class_<LocalJob>(module, "LocalJob", "A job whose master and shards are threads of this process.")
      .def(py::init<std::string, std::string, std::string>(), py::arg("job"), py::arg("output") = "",
           py::arg("resume") = "",
           "LocalJob(job, output='', resume='')\n\njob: the text of a job file without [model] and [data].")
      .def_property_readonly("address", &LocalJob::address, "Where workers and readers of this user find it.")
      .def("wait_for_end", &LocalJob::wait_for_end, py::arg("timeout") = py::none(),
           "Whether it has ended by then.")
      .def("close", &LocalJob::close, "Asks it to end, and waits. Raises what it has failed with.")
      .def("report", &LocalJob::report, "The report of a job that has ended, as JSON.");
}

}  // namespace embers::python
