#include "python/src/session/session.h"

#include <pybind11/stl.h>

#include "python/src/calls/calls.h"
#include "python/src/session/minibatch.h"
#include "python/src/values/floats.h"
#include "python/src/values/keys.h"

namespace embers::python {
namespace py = pybind11;
namespace {

// A look-up of so many bytes of rows is first tried in the caller's thread.
constexpr size_t kShortLookup = size_t{8} << 20;

client::KeyType key_type_of(const std::string& name) {
  if (name == "int64") return client::KeyType::kInt64;
  if (name == "bytes") return client::KeyType::kBytes;
  fail(ErrorCode::kInvalid, "keys are 'int64' or 'bytes', not '{}'", name);
}

using client::TableSpec;
using client::Work;

struct ParameterSpec {
  client::Parameter parameter;
  py::object initial;  // float32 array of its shape, or None
};

client::Options options_of(const std::string& master, const std::string& job_dir,
                           const std::string& secret_file, bool insecure, double connect_timeout,
                           double timeout, const std::string& version) {
  client::Options options;
  options.version = version;
  options.master = master;
  options.job_dir = job_dir;
  options.secret_file = secret_file;
  options.insecure = insecure;
  options.connect_timeout = std::chrono::duration<double>(connect_timeout);
  options.timeout = std::chrono::duration<double>(timeout);
  return options;
}

// A program's part in a job. Threads may share it.
class Session {
 public:
  explicit Session(std::shared_ptr<const Joined> joined) : joined_(std::move(joined)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  static std::unique_ptr<Session> join_as_reader(const std::string& master, const std::string& job_dir,
                                                 const std::string& secret_file, bool insecure,
                                                 double connect_timeout, double timeout,
                                                 const std::string& version) {
    return join(
        client::WorkerOptions{
            options_of(master, job_dir, secret_file, insecure, connect_timeout, timeout, version)},
        [](const client::WorkerOptions& options) { return client::Session::join_as_reader(options); });
  }

  static std::unique_ptr<Session> join_as_worker(
      const std::string& master, const std::string& job_dir, const std::string& secret_file, bool insecure,
      double connect_timeout, double timeout, const std::string& version,
      const std::vector<TableSpec>& tables, const std::vector<ParameterSpec>& parameters,
      const std::vector<std::string>& numeric, const std::vector<std::string>& data,
      const std::optional<Work>& work, const std::string& optimizer, uint32_t window,
      const std::optional<client::OwnerPlace>& owner) {
    client::WorkerOptions options{
        options_of(master, job_dir, secret_file, insecure, connect_timeout, timeout, version)};
    options.window = window;
    options.owner = owner;
    options.tables = tables;
    const auto kept = std::make_shared<std::vector<py::object>>();  // first values, while it joins
    for (const ParameterSpec& given : parameters) {
      client::Parameter& parameter = options.parameters.emplace_back(given.parameter);
      if (given.initial.is_none()) continue;
      parameter.initial = floats_of(given.initial, Shape(parameter.shape.begin(), parameter.shape.end()),
                                    fmt::format("the first value of '{}'", parameter.name));
      kept->push_back(given.initial);
    }
    options.work = work;
    options.optimizer = optimizer;
    options.numeric = numeric;
    options.data = data;
    return join(
        std::move(options), [](const client::WorkerOptions& o) { return client::Session::join_as_worker(o); },
        kept);
  }

  std::string job() const { return Call(joined_->generation), joined_->session->job(); }

  std::vector<TableSpec> tables() const {
    const Call call(joined_->generation);
    std::vector<TableSpec> tables;
    for (const client::Table& table : joined_->session->tables()) tables.push_back({table});
    return tables;
  }

  py::array lookup(const std::string& name, const py::object& given, const py::object& out) {
    const Call call(joined_->generation);
    const client::Table table = joined_->session->table(name);
    const auto keys = std::make_shared<const KeyList>(given, fmt::format("table '{}'", name));
    const bool are_strings = keys->size() > 0 ? keys->are_strings() : table.keys == client::KeyType::kBytes;
    Shape shape = keys->shape();
    shape.push_back(table.dim);
    py::array rows = out.is_none() ? py::array(py::dtype::of<float>(), shape) : py::array();
    const std::span<float> place = out.is_none() ? std::span<float>(static_cast<float*>(rows.mutable_data()),
                                                                    static_cast<size_t>(rows.size()))
                                                 : place_of(out, shape, "out");
    if (place.size_bytes() <= kShortLookup && look_up_here(name, *keys, are_strings, place))
      return out.is_none() ? rows : py::reinterpret_borrow<py::array>(out);
    // A look-up that nobody waits for any more still writes to its place, so that is kept.
    const auto kept = std::make_shared<Kept>(Kept{out.is_none() ? py::object(rows) : out, keys});
    const auto look_up = [session = joined_->session, name, keys = keys.get(), place, are_strings] {
      are_strings ? session->lookup(name, keys->strings(), place)
                  : session->lookup(name, keys->ints(), place);
      return true;
    };
    run_interruptible<bool>(look_up, kept);
    return out.is_none() ? rows : py::reinterpret_borrow<py::array>(out);
  }

  // Without another thread, which costs tens of microseconds. False when it takes longer than a slice.
  bool look_up_here(const std::string& name, const KeyList& keys, bool are_strings, std::span<float> place) {
    const py::gil_scoped_release free;
    return (are_strings ? joined_->session->lookup_for(kSlice, name, keys.strings(), place)
                        : joined_->session->lookup_for(kSlice, name, keys.ints(), place))
        .has_value();
  }

  py::list parameters() {
    const Call call(joined_->generation);
    using Values = std::vector<std::vector<float>>;
    const auto all = run_interruptible<std::shared_ptr<const Values>>(
        [session = joined_->session] { return std::make_shared<const Values>(session->parameters()); });
    py::list values;
    for (size_t i = 0; i < all->size(); ++i) {
      const auto& shape = joined_->parameters[i].shape;
      values.append(view((*all)[i], Shape(shape.begin(), shape.end()), all, true));
    }
    return values;
  }

  // All rows of a table.
  py::tuple export_table(const std::string& name) {
    const Call call(joined_->generation);
    const client::Table table = joined_->session->table(name);
    struct All {
      std::vector<int64_t> ints;
      std::vector<std::string> strings;
      std::vector<float> rows;
    };
    const auto all = run_interruptible<std::shared_ptr<All>>([session = joined_->session, name] {
      auto found = std::make_shared<All>();
      session->scan(name, [&](const client::TableKeys& keys, std::span<const float> rows) {
        found->ints.insert(found->ints.end(), keys.ints.begin(), keys.ints.end());
        found->strings.insert(found->strings.end(), keys.bytes.begin(), keys.bytes.end());
        found->rows.insert(found->rows.end(), rows.begin(), rows.end());
      });
      return found;
    });
    const auto count = static_cast<py::ssize_t>(all->rows.size() / table.dim);
    py::array rows = view(all->rows, {count, static_cast<py::ssize_t>(table.dim)}, all, true);
    if (table.keys == client::KeyType::kInt64)
      return py::make_tuple(py::array_t<int64_t>(count, all->ints.data()), rows);
    py::list keys(all->strings.size());
    for (size_t i = 0; i < all->strings.size(); ++i) keys[i] = py::bytes(all->strings[i]);
    return py::make_tuple(keys, rows);
  }

  void import_rows(const std::string& name, const py::object& given, const py::object& rows) {
    const Call call(joined_->generation);
    const client::Table table = joined_->session->table(name);
    const auto keys = std::make_shared<const KeyList>(given, fmt::format("table '{}'", name));
    const std::span<const float> values =
        floats_of(rows, {static_cast<py::ssize_t>(keys->size()), static_cast<py::ssize_t>(table.dim)},
                  fmt::format("the array of rows for table '{}'", name));
    const auto kept = std::make_shared<Kept>(Kept{rows, keys});
    run_interruptible<bool>(
        [session = joined_->session, name, keys = keys.get(), values] {
          session->import_rows({name, keys->ints(), keys->strings()}, values);
          return true;
        },
        kept);
  }

  uint64_t newest_version(const std::string& name, const py::object& given) {
    const Call call(joined_->generation);
    const client::Table table = joined_->session->table(name);
    const auto keys = std::make_shared<const KeyList>(given, fmt::format("table '{}'", name));
    return run_interruptible<uint64_t>(
        [session = joined_->session, name, keys = keys.get(),
         are_strings = table.keys == client::KeyType::kBytes, floats = keys->size() * table.dim] {
          std::vector<float> rows(floats);
          return (are_strings ? session->lookup(name, keys->strings(), rows)
                              : session->lookup(name, keys->ints(), rows))
              .newest;
        },
        keys);
  }

  void save(const std::string& directory) {
    const Call call(joined_->generation);
    run_interruptible<bool>([session = joined_->session, directory] {
      session->save(directory);
      return true;
    });
  }

  // None when there is nothing more to do.
  py::object lease(const std::optional<double>& timeout) {
    const Call call(joined_->generation);
    return joined_->window == 0 ? lease_next(timeout) : draw(timeout);
  }

  void give_back_undrawn() {
    const Call call(joined_->generation);
    if (joined_->window > 0) joined_->session->give_back_undrawn();
  }

  bool begins_ahead() const { return Call(joined_->generation), joined_->session->begins_ahead(); }

  void settle() {
    const Call call(joined_->generation);
    wait_in_slices(std::nullopt, [&](auto slice) { return joined_->session->settle_for(slice); });
  }

  void fail_job(const std::string& message) {
    const Call call(joined_->generation);
    run_interruptible<bool>([session = joined_->session, message] {
      session->fail_job(Error(ErrorCode::kInvalid, message));
      return true;
    });
  }

  void stop_job() {
    const Call call(joined_->generation);
    joined_->session->stop_job();
  }

  // Whether it has left by then.
  bool close(const std::optional<double>& timeout) {
    const Call call(joined_->generation);
    const auto left = std::make_shared<Promised<bool>>();
    run_in_helper([session = joined_->session, left] {
      session->close();
      left->keep(true);
    });
    return wait_in_slices(deadline_of(timeout), [&](auto slice) { return left->wait_for(slice); });
  }

 private:
  py::object lease_next(const std::optional<double>& timeout) {
    std::optional<client::Minibatch> minibatch;
    const bool there = wait_in_slices(deadline_of(timeout), [&](auto slice) {
      minibatch = joined_->session->lease_for(slice);
      return minibatch.has_value();
    });
    if (!there)
      fail(ErrorCode::kTimeout, "no minibatch was leased within {:g} s: others hold what is left", *timeout);
    return *minibatch ? minibatch_object(joined_, std::move(*minibatch)) : py::none();
  }

  py::object draw(const std::optional<double>& timeout) {
    using Kind = client::Session::Draw::Kind;
    std::optional<client::Session::Draw> drawn;
    const bool there = wait_in_slices(deadline_of(timeout), [&](auto slice) {
      drawn = joined_->session->draw_for(slice);
      return drawn.has_value();
    });
    if (!there)
      fail(ErrorCode::kTimeout, "no minibatch was leased within {:g} s: others hold what is left", *timeout);
    if (drawn->kind == Kind::kLater)
      fail(ErrorCode::kTimeout,
           "there are no more minibatches before those that this program has drawn are pushed or given back");
    return drawn->kind == Kind::kOver ? py::none() : minibatch_object(joined_, std::move(drawn->minibatch));
  }

  struct Kept {
    py::object place;
    std::shared_ptr<const KeyList> keys;
  };

  template <class Join>
  static std::unique_ptr<Session> join(client::WorkerOptions options, const Join& how,
                                       std::shared_ptr<const void> kept = nullptr) {
    const Call call(fork_generation());
    const uint32_t window = options.window;
    auto parameters = options.parameters;
    for (client::Parameter& parameter : parameters) parameter.initial = {};
    auto session = run_interruptible<std::shared_ptr<client::Session>>(
        [options = std::move(options), how] { return std::make_shared<client::Session>(how(options)); },
        std::move(kept));
    return std::make_unique<Session>(
        make_joined({std::move(session), std::move(parameters), fork_generation(), window}));
  }

  std::shared_ptr<const Joined> joined_;
};

}  // namespace

void define_session(py::module_& module) {
  py::class_<TableSpec>(module, "TableSpec", "An embedding table.")
      .def(
          py::init([](std::string name, uint32_t dim, const std::string& keys, std::string initializer,
                      std::string optimizer, std::string constraint, std::string partition, int64_t rows,
                      std::string dtype) {
            if (rows < 0) fail(ErrorCode::kInvalid, "table '{}' has {} rows", name, rows);
            return TableSpec{
                {std::move(name), dim, key_type_of(keys), rows, std::move(dtype), std::move(partition)},
                std::move(initializer),
                std::move(optimizer),
                std::move(constraint)};
          }),
          py::arg("name"), py::arg("dim"), py::arg("keys") = "int64", py::arg("initializer") = "",
          py::arg("optimizer") = "", py::arg("constraint") = "", py::arg("partition") = "",
          py::arg("rows") = 0, py::arg("dtype") = "",
          "TableSpec(name, dim, keys='int64', initializer='', optimizer='', constraint='', partition='', "
          "rows=0, dtype='')\n\n"
          "keys: 'int64' or 'bytes'. partition: 'token', 'encoding' or 'auto'. rows: keys are below; 0 where "
          "they may be any. dtype: 'float32', 'float16' or 'bfloat16'. The others are values of a job "
          "file, '{ name = \"normal\", stddev = 0.01 }'; '' is the job's.")
      .def_property_readonly("name", [](const TableSpec& t) { return t.name; })
      .def_property_readonly("dim", [](const TableSpec& t) { return t.dim; })
      .def_property_readonly(
          "keys", [](const TableSpec& t) { return t.keys == client::KeyType::kInt64 ? "int64" : "bytes"; })
      .def_readonly("initializer", &TableSpec::initializer)
      .def_readonly("optimizer", &TableSpec::optimizer)
      .def_readonly("constraint", &TableSpec::constraint)
      .def_property_readonly("partition", [](const TableSpec& t) { return t.partition; })
      .def_property_readonly("rows", [](const TableSpec& t) { return t.rows; })
      .def_property_readonly("dtype", [](const TableSpec& t) { return t.dtype; })
      .def("__repr__", [](const TableSpec& t) {
        return fmt::format("<embers table '{}': dim {}, keys {}>", t.name, t.dim,
                           t.keys == client::KeyType::kInt64 ? "int64" : "bytes");
      });
  py::class_<ParameterSpec>(module, "ParameterSpec", "A dense parameter, or a buffer such as a running mean.")
      .def(py::init([](std::string name, std::vector<int64_t> shape, bool buffer, py::object initial) {
             if (!initial.is_none())
               floats_of(initial, Shape(shape.begin(), shape.end()),
                         fmt::format("the first value of '{}'", name));
             return ParameterSpec{{std::move(name), std::move(shape), buffer}, std::move(initial)};
           }),
           py::arg("name"), py::arg("shape"), py::arg("buffer") = false, py::arg("initial") = py::none(),
           "ParameterSpec(name, shape, buffer=False, initial=None)\n\n"
           "initial: float32 of that shape; the first worker's starts the job.")
      .def_property_readonly("name", [](const ParameterSpec& p) { return p.parameter.name; })
      .def_property_readonly("shape",
                             [](const ParameterSpec& p) { return py::tuple(py::cast(p.parameter.shape)); })
      .def_property_readonly("buffer", [](const ParameterSpec& p) { return p.parameter.buffer; })
      .def_readonly("initial", &ParameterSpec::initial);
  py::class_<Work>(module, "Work", "How much there is to do.")
      .def(py::init([](uint64_t records, uint32_t batch_size, uint32_t epochs, bool drop_last) {
             return Work{records, batch_size, epochs, drop_last};
           }),
           py::arg("records"), py::arg("batch_size"), py::arg("epochs"), py::arg("drop_last") = false,
           "Work(records, batch_size, epochs, drop_last=False)")
      .def_readonly("records", &Work::records)
      .def_readonly("batch_size", &Work::batch_size)
      .def_readonly("epochs", &Work::epochs)
      .def_readonly("drop_last", &Work::drop_last);
  py::class_<client::OwnerPlace>(module, "OwnerPlace", "Where others reach a worker that is an owner, too.")
      .def(py::init([](std::vector<std::string> listen, std::string advertise, std::string port_range) {
             return client::OwnerPlace{std::move(listen), std::move(advertise), std::move(port_range)};
           }),
           py::arg("listen") = std::vector<std::string>(), py::arg("advertise") = "",
           py::arg("port_range") = "",
           "OwnerPlace(listen=[], advertise='', port_range='')\n\nlisten: 'HOST:PORT' or 'unix:/path'; none: "
           "a "
           "free port at the "
           "address that reaches the master, and a Unix socket. advertise: HOST or HOST:PORT by which others "
           "reach it. "
           "port_range: 'A-B'.");
  const client::Options defaults;
  py::class_<Session>(module, "Session", "A program's part in a running job. Threads may share it.")
      .def_static("join_as_reader", &Session::join_as_reader, py::arg("master") = "", py::arg("job_dir") = "",
                  py::arg("secret_file") = "", py::arg("insecure") = false,
                  py::arg("connect_timeout") = defaults.connect_timeout.count(),
                  py::arg("timeout") = defaults.timeout.count(), py::arg("version") = EMBERS_VERSION,
                  "Joins to look rows up. Returns when the job has begun.")
      .def_static("join_as_worker", &Session::join_as_worker, py::kw_only(), py::arg("master") = "",
                  py::arg("job_dir") = "", py::arg("secret_file") = "", py::arg("insecure") = false,
                  py::arg("connect_timeout") = defaults.connect_timeout.count(),
                  py::arg("timeout") = defaults.timeout.count(), py::arg("version") = EMBERS_VERSION,
                  py::arg("tables"), py::arg("parameters"), py::arg("numeric"), py::arg("data"),
                  py::arg("work"), py::arg("optimizer") = "", py::arg("window") = 0,
                  py::arg("owner") = py::none(),
                  "Joins to compute gradients; with an OwnerPlace, also as a shard. Returns when all shards "
                  "have joined.")
      .def_property_readonly("job", &Session::job, "The job's name.")
      .def_property_readonly("tables", &Session::tables, "The job's embedding tables.")
      .def("lookup", &Session::lookup, py::arg("table"), py::arg("keys"), py::arg("out") = py::none(),
           "lookup(table, keys, out=None) -> float32, the shape of keys + (dim,)\n\n"
           "The latest rows; of a key without a row, what it will begin with. Creates nothing. `out` is "
           "written to, "
           "without a copy.")
      .def("parameters", &Session::parameters,
           "parameters() -> list of float32 in their shapes\n\nPresent values of this worker's parameters "
           "and buffers.")
      .def("export", &Session::export_table, py::arg("table"),
           "export(table) -> (keys int64 (n,) or list of bytes, rows float32 (n, dim))")
      .def("import_", &Session::import_rows, py::arg("table"), py::arg("keys"), py::arg("rows"),
           "import_(table, keys, rows float32 (n, dim))\n\nSets the rows of these keys, each once. Workers "
           "only.")
      .def("newest_version", &Session::newest_version, py::arg("table"), py::arg("keys"),
           "newest_version(table, keys) -> int\n\nOf the shards that hold these keys; 0 if they have applied "
           "no "
           "gradient yet.")
      .def("save", &Session::save, py::arg("directory"),
           "save(directory)\n\nSaves the job, to a directory of the master's host, and returns when that is "
           "done. What is pulled and not pushed holds it up.")
      .def("lease", &Session::lease, py::arg("timeout") = py::none(),
           "lease(timeout=None) -> Minibatch, or None when the job has no more work\n\nRaises Timeout.")
      .def("fail_job", &Session::fail_job, py::arg("message"),
           "fail_job(message)\n\nEnds the job, which fails with this: its data or its model are wrong, and "
           "no other "
           "worker would get any further.")
      .def("give_back_undrawn", &Session::give_back_undrawn,
           "Gives back the minibatch that is asked for ahead of lease(), for when that will not be called "
           "for a while.")
      .def_property_readonly(
          "begins_ahead", &Session::begins_ahead,
          "Whether ask_to_begin() may be called while other minibatches of this program are computed.")
      .def("stop_job", &Session::stop_job,
           "Of an owner: asks the master to save and end the job, and returns at once.")
      .def("settle", &Session::settle,
           "Waits until the shards have acknowledged what this program has pushed.")
      .def("close", &Session::close, py::arg("timeout") = py::none(),
           "close(timeout=None) -> bool\n\nLeaves the job: what is leased is given back, what is pushed "
           "arrives. Whether "
           "that is done within this many seconds; it goes on until the program ends.");
}

}  // namespace embers::python
