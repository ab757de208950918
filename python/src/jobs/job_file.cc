#include "python/src/jobs/job_file.h"

#include <pybind11/stl.h>

#include "client/joining/describe_job.h"
#include "client/session.h"
#include "job/job.h"
#include "job/sections/said.h"
#include "master/model_checks.h"
#include "python/src/calls/calls.h"
#include "python/src/jobs/job_reader.h"

namespace embers::python {
namespace py = pybind11;
namespace {

py::object json_to_python(const nlohmann::json& value) {
  return py::module_::import("json").attr("loads")(value.dump());
}

// A job file, as the process reads it that runs its Python model. Constant, but for the data that it opens.
class JobFile {
 public:
  JobFile(job::JobText text, std::string index_dir, bool evaluates, std::string version, uint64_t run)
      : job_(job::parse_job(std::move(text))),
        index_dir_(std::move(index_dir)),
        evaluates_(evaluates),
        version_(std::move(version)),
        run_(run) {
    if (job_.model.python.empty())
      fail(ErrorCode::kInvalid, "{}: [model] has no 'python', a Python module's model", job_.source.path);
  }

  static std::unique_ptr<JobFile> read(const std::string& path, const std::vector<std::string>& set) {
    return std::make_unique<JobFile>(job::read_job(path, set), "", false, EMBERS_VERSION, 0);
  }
  static std::unique_ptr<JobFile> of_master(const std::string& master, const std::string& job_dir,
                                            const std::string& secret_file, bool insecure,
                                            double connect_timeout, double timeout,
                                            const std::vector<std::string>& set) {
    const Call call(fork_generation());
    client::Options options;
    options.master = master;
    options.job_dir = job_dir;
    options.secret_file = secret_file;
    options.insecure = insecure;
    options.connect_timeout = std::chrono::duration<double>(connect_timeout);
    options.timeout = std::chrono::duration<double>(timeout);
    JobDescription found =
        run_interruptible<JobDescription>([options, set] { return describe_job(options, set); });
    return std::make_unique<JobFile>(std::move(found.text), std::move(found.index_dir), found.evaluates,
                                     std::move(found.version), found.run);
  }

  const job::Job& job() const { return job_; }
  bool evaluates() const { return evaluates_; }
  const std::string& version() const { return version_; }
  uint64_t run() const { return run_; }

  // What is trained on (unless the job evaluates), and what is evaluated; None where there is nothing.
  py::tuple open_data() {
    const Call call(fork_generation());
    using Both = std::pair<std::shared_ptr<const data::Dataset>, std::shared_ptr<const data::Dataset>>;
    const Both found = run_interruptible<Both>([job = job_, dir = index_dir_, evaluates = evaluates_] {
      Both both;
      if (!evaluates) both.first = data::Dataset::open(job, data::Split::kTrain, dir);
      if (!job.data.test.empty()) both.second = data::Dataset::open(job, data::Split::kTest, dir);
      return both;
    });
    signature_.clear();
    for (const auto& dataset : {found.first, found.second}) {
      if (!dataset) continue;
      const auto lines = dataset->signature();
      signature_.insert(signature_.end(), lines.begin(), lines.end());
    }
    const uint64_t records = (found.first ? found.first : found.second)->records();
    const auto reader = [&](const std::shared_ptr<const data::Dataset>& dataset, bool shuffle) {
      return dataset ? reader_object(dataset, shuffle) : py::object(py::none());
    };
    return py::make_tuple(reader(found.first, job_.data.shuffle), reader(found.second, false), records);
  }
  // Of the data that was opened: what workers and master must agree on.
  const std::vector<std::string>& signature() const { return signature_; }

  // The tables and parameters of a model as the job has them, one line each; BadInput where the job file does
  // not go with them.
  using Parameter = std::tuple<std::string, std::vector<int64_t>, bool>;  // name, shape, whether a buffer
  std::vector<std::string> settled(const std::vector<client::TableSpec>& tables,
                                   const std::vector<Parameter>& parameters) const {
    ModelSpec model;
    bool any[] = {false, false};
    for (const auto& [name, shape, buffer] : parameters) {
      model.dense.push_back({name, shape, buffer});
      any[buffer] = true;
    }
    const auto add = [&](const std::string& name, uint32_t dim, KeyKind kind, const job::SaidOfTable& said) {
      TableSpec& table = model.tables.emplace_back();
      table.name = name;
      table.dim = dim;
      table.key_kind = kind;
      table.initializer.name = table.update_rule.name = "";
      job::read_said(fmt::format("table '{}'", name), said, table);
    };
    for (const client::TableSpec& t : tables)
      add(t.name, t.dim, t.keys == client::KeyType::kInt64 ? KeyKind::kInt64 : KeyKind::kBytes,
          {t.initializer, t.optimizer, t.constraint, t.partition, t.dtype});
    if (any[false]) add(kDenseTable, kDenseChunk, KeyKind::kBytes, {});
    if (any[true]) add(kBufferTable, kDenseChunk, KeyKind::kBytes, {});
    settle_model(job_, model);
    return embers::signature(model);
  }

 private:
  const job::Job job_;
  const std::string index_dir_;
  const bool evaluates_;
  const std::string version_;
  const uint64_t run_;
  std::vector<std::string> signature_;
};

py::list categorical_of(const job::Job& job) {
  py::list features;
  for (const job::CategoricalFeature& f : job.feature_schema().categorical)
    features.append(
        py::make_tuple(f.name, f.key_kind == KeyKind::kInt64 ? "int64" : "bytes", f.buckets, f.weighted));
  return features;
}

}  // namespace

void define_job_file(py::module_& module) {
  py::class_<JobFile>(module, "JobFile", "A job file whose model is a Python module.")
      .def_static("read", &JobFile::read, py::arg("path"), py::arg("set") = std::vector<std::string>())
      .def_static("of_master", &JobFile::of_master, py::arg("master") = "", py::arg("job_dir") = "",
                  py::arg("secret_file") = "", py::arg("insecure") = false, py::arg("connect_timeout") = 20.0,
                  py::arg("timeout") = 60.0, py::arg("set") = std::vector<std::string>(),
                  "The one that a master runs; asks for it, and joins nothing.")
      .def_property_readonly("path", [](const JobFile& f) { return f.job().source.path; })
      .def_property_readonly("name", [](const JobFile& f) { return f.job().job.name; })
      .def_property_readonly("seed", [](const JobFile& f) { return f.job().job.seed; })
      .def_property_readonly("evaluates", &JobFile::evaluates, "Whether it evaluates a saved model.")
      .def_property_readonly("version", &JobFile::version, "Of the master's embers.")
      .def_property_readonly("run", &JobFile::run, "The number of the master's run; 0 for one that was read.")
      .def_property_readonly("python", [](const JobFile& f) { return f.job().model.python; })
      .def_property_readonly("python_path", [](const JobFile& f) { return f.job().model.python_path; })
      .def_property_readonly(
          "model", [](const JobFile& f) { return json_to_python(f.job().model.params); },
          "The other keys of [model].")
      .def_property_readonly("numeric", [](const JobFile& f) { return f.job().feature_schema().numeric; })
      .def_property_readonly(
          "categorical", [](const JobFile& f) { return categorical_of(f.job()); },
          "(name, 'int64' or 'bytes', buckets, weighted) of each.")
      .def_property_readonly("batch_size", [](const JobFile& f) { return f.job().training.batch_size; })
      .def_property_readonly("epochs", [](const JobFile& f) { return f.job().training.epochs; })
      .def_property_readonly("threads", [](const JobFile& f) { return f.job().training.threads; })
      .def_property_readonly("prefetch", [](const JobFile& f) { return f.job().training.prefetch; })
      .def(
          "place",
          [](const JobFile& f, const std::string& key) {
            return f.job().place({"model", key});
          },
          py::arg("key"), "Where a key of [model] stands, for messages.")
      .def(
          "dim",
          [](const JobFile& f, const std::string& table, uint32_t otherwise) {
            return f.job().dim_for(table, otherwise);
          },
          py::arg("table"), py::arg("otherwise"), "What [storage.tables] says, else `otherwise`.")
      .def("open_data", &JobFile::open_data,
           "open_data() -> (train Reader or None, test Reader or None, records)")
      .def_property_readonly("signature", &JobFile::signature, "Of the data that was opened.")
      .def("settled", &JobFile::settled, py::arg("tables"), py::arg("parameters"),
           "settled(tables, [(name, shape, whether a buffer), ...]) -> lines that describe them as the job "
           "has them");
}

}  // namespace embers::python
