#include "python/src/session/minibatch.h"

#include <pybind11/stl.h>

#include <atomic>
#include <deque>

#include "python/src/calls/calls.h"
#include "python/src/values/floats.h"
#include "python/src/values/keys.h"
#include "python/src/values/unique_columns.h"

namespace embers::python {
namespace py = pybind11;
namespace {

// Columns of keys, and the table of each.
using TableColumns = std::pair<std::vector<std::string>, py::object>;

// A leased minibatch. One thread at a time may use it: another one is refused.
class Minibatch {
 public:
  Minibatch(std::shared_ptr<const Joined> joined, client::Minibatch minibatch)
      : joined_(std::move(joined)), minibatch_(std::make_shared<client::Minibatch>(std::move(minibatch))) {
    epoch_ = minibatch_->epoch();
    number_ = minibatch_->number();
    version_ = minibatch_->version();
    evaluate_ = minibatch_->evaluate();
  }
  ~Minibatch() {
    if (joined_->generation != fork_generation()) {
      // Its connections are the parent's: a forked child leaves them alone.
      new std::shared_ptr<client::Minibatch>(std::move(minibatch_));
    } else if (pulling_) {
      const py::gil_scoped_release free;
      while (!pulling_->done->wait_for(kSlice)) continue;
    }
  }
  Minibatch(const Minibatch&) = delete;
  Minibatch& operator=(const Minibatch&) = delete;

  uint64_t epoch() const { return epoch_; }
  uint64_t number() const { return number_; }
  uint64_t version() const { return version_; }
  bool evaluate() const { return evaluate_; }

  void pull(const std::vector<std::pair<std::string, py::object>>& given,
            const std::vector<TableColumns>& columns) {
    const Use use(*this);
    const auto lists = std::make_shared<const Lists>(*joined_->session, given);
    sizes_ = lists->sizes;
    dims_ = lists->dims;
    if (columns.empty()) {
      const py::gil_scoped_release free;
      minibatch_->pull(lists->keys);
    } else {
      pull_when_unique(lists, columns);
    }
  }

  bool pull_more(const std::vector<std::pair<std::string, py::object>>& given) {
    const Use use(*this);
    auto lists = std::make_shared<const Lists>(*joined_->session, given);
    const bool is_there = run_interruptible<bool>(
        [minibatch = minibatch_, lists = lists.get()] { return minibatch->pull_more(lists->keys); }, lists);
    sizes_.insert(sizes_.end(), lists->sizes.begin(), lists->sizes.end());
    dims_.insert(dims_.end(), lists->dims.begin(), lists->dims.end());
    return is_there;
  }

  void ask_to_begin() {
    const Use use(*this);
    minibatch_->ask_to_begin();
  }

  std::optional<bool> begin(std::optional<double> timeout) {
    const Use use(*this);
    std::optional<bool> begun;
    wait_in_slices(deadline_of(timeout), [&](auto slice) {
      begun = minibatch_->begin_for(slice);
      return begun.has_value();
    });
    return begun;
  }

  bool wait() {
    const Use use(*this);
    wait_in_slices(std::nullopt, [&](auto slice) { return minibatch_->wait_for(slice); });
    return minibatch_->wait();
  }

  py::list rows(size_t first) {
    const Use use(*this);
    const auto hold = minibatch_->hold();
    py::list rows;
    for (size_t i = first; i < sizes_.size(); ++i)
      rows.append(view(minibatch_->rows(i), {sizes_[i], dims_[i]}, hold, false));
    return rows;
  }

  py::array parameter(size_t i) {
    const Use use(*this);
    const std::span<const float> values = [&] {
      const py::gil_scoped_release released;  // own steps may be added
      return minibatch_->parameter(i);
    }();
    return view(values, shape_of(i), minibatch_->hold(), false);
  }

  void push(const std::vector<py::object>& rows, const std::vector<py::object>& parameters, uint64_t examples,
            double loss_sum, const py::object& scores, const py::object& labels, uint64_t skipped) {
    const Use use(*this);
    std::vector<std::span<const float>> row_gradients, parameter_gradients;
    for (size_t i = 0; i < rows.size(); ++i)
      row_gradients.push_back(
          rows[i].is_none() || i >= sizes_.size()
              ? std::span<const float>()
              : floats_of(rows[i], {sizes_[i], dims_[i]}, fmt::format("the gradient of list {}", i)));
    for (size_t i = 0; i < parameters.size(); ++i)
      parameter_gradients.push_back(
          parameters[i].is_none() || i >= joined_->parameters.size()
              ? std::span<const float>()
              : floats_of(parameters[i], shape_of(i),
                          fmt::format("the gradient of '{}'", joined_->parameters[i].name)));
    const Columns columns(examples, loss_sum, scores, labels, py::none(), skipped);
    const py::gil_scoped_release free;
    minibatch_->push(row_gradients, parameter_gradients, columns.report);
  }

  void finish(uint64_t examples, double loss_sum, const py::object& scores, const py::object& labels,
              const py::object& records, uint64_t skipped) {
    const Use use(*this);
    const Columns columns(examples, loss_sum, scores, labels, records, skipped);
    const py::gil_scoped_release free;
    minibatch_->finish(columns.report);
  }

  void give_back() {
    const Use use(*this, false);
    const py::gil_scoped_release free;
    minibatch_->give_back();
  }

 private:
  class Use {
   public:
    explicit Use(Minibatch& minibatch, bool must_have_pulled = true)
        : call_(minibatch.joined_->generation), turn_(minibatch) {
      minibatch.finish_pull(must_have_pulled);
    }

   private:
    struct Turn {
      explicit Turn(Minibatch& minibatch) : busy(minibatch.busy_) {
        if (busy.exchange(true))
          fail(ErrorCode::kInvalid, "minibatch {} of epoch {} is being used by another thread",
               minibatch.number_, minibatch.epoch_);
      }
      ~Turn() { busy = false; }
      Turn(const Turn&) = delete;
      Turn& operator=(const Turn&) = delete;
      std::atomic<bool>& busy;
    };

    const Call call_;
    const Turn turn_;
  };

  // What is pulled: keys that Python keeps, by table.
  struct Lists {
    Lists(const client::Session& session, const std::vector<std::pair<std::string, py::object>>& given) {
      for (const auto& [table, list] : given) {
        const client::Table& known = session.table(table);
        const KeyList& kept = lists.emplace_back(list, fmt::format("table '{}'", table));
        if (kept.size() > 0) check_kind(known, kept.are_strings());
        keys.push_back({known.name, kept.ints(), kept.strings()});
        sizes.push_back(static_cast<py::ssize_t>(kept.size()));
        dims.push_back(known.dim);
      }
    }
    std::deque<KeyList> lists;
    std::vector<client::TableKeys> keys;
    std::vector<py::ssize_t> sizes, dims;
  };

  static void check_kind(const client::Table& table, bool are_strings) {
    const bool takes_strings = table.keys == client::KeyType::kBytes;
    if (are_strings != takes_strings)
      fail(ErrorCode::kInvalid, "table '{}' has {} keys, but {} were given", table.name,
           takes_strings ? "string" : "integer", are_strings ? "strings" : "integers");
  }

  // A pull whose keys a helper's thread waits for, and what it reads of Python's.
  struct Pulling {
    std::shared_ptr<const Lists> lists;
    std::vector<TableColumns> columns;
    std::shared_ptr<Promised<std::vector<py::ssize_t>>> done;  // sizes of the columns' lists
  };

  void pull_when_unique(const std::shared_ptr<const Lists>& lists, const std::vector<TableColumns>& columns) {
    struct Column {
      std::vector<std::string_view> tables;
      std::shared_ptr<const UniqueColumns::Found> found;
    };
    std::vector<Column> given;
    for (const auto& [tables, keys] : columns) {
      const auto& unique = keys.cast<const UniqueColumns&>();
      if (tables.size() != unique.columns())
        fail(ErrorCode::kInvalid, "{} tables cannot have {} columns of keys", tables.size(),
             unique.columns());
      Column& column = given.emplace_back();
      column.found = unique.found();
      for (size_t c = 0; c < tables.size(); ++c) {
        const client::Table& known = joined_->session->table(tables[c]);
        if (unique.size() > 0) check_kind(known, unique.are_strings(c));
        column.tables.push_back(known.name);
        dims_.push_back(known.dim);
      }
    }
    const auto done = std::make_shared<Promised<std::vector<py::ssize_t>>>();
    Pulling pulling{lists, columns, done};
    run_in_helper([done, given = std::move(given), minibatch = minibatch_, lists = lists.get()]() mutable {
      std::optional<std::vector<py::ssize_t>> sizes(std::in_place);
      std::exception_ptr error;
      try {
        std::vector<client::TableKeys> keys = lists->keys;
        std::deque<std::vector<std::string_view>> strings;
        for (const Column& column : given) {
          const std::vector<KeysView> unique = wait_for(*column.found);
          for (size_t c = 0; c < unique.size(); ++c) {
            std::vector<std::string_view>& bytes = strings.emplace_back();
            if (unique[c].kind == KeyKind::kBytes)
              for (size_t i = 0; i < unique[c].size(); ++i) bytes.push_back(unique[c].bytes_at(i));
            keys.push_back({column.tables[c], unique[c].ints, bytes});
            sizes->push_back(static_cast<py::ssize_t>(unique[c].size()));
          }
        }
        minibatch->pull(keys);
      } catch (...) {
        sizes.reset();
        error = std::current_exception();
      }
      minibatch.reset();  // before anybody goes on
      done->keep(std::move(sizes), error);
    });
    pulling_ = std::move(pulling);
  }

  // Waits until the helper has asked for what pull() was given.
  void finish_pull(bool must_have_pulled) {
    if (!pulling_) return;
    wait_in_slices(std::nullopt, [&](auto slice) { return pulling_->done->wait_for(slice); });
    const Pulling pulled = std::move(*pulling_);
    pulling_.reset();
    if (!must_have_pulled) return;
    if (pulled.done->error) std::rethrow_exception(pulled.done->error);
    sizes_.insert(sizes_.end(), pulled.done->result->begin(), pulled.done->result->end());
  }

  // A report, and what it views.
  struct Columns {
    Columns(uint64_t examples, double loss_sum, const py::object& given_scores,
            const py::object& given_labels, const py::object& given_records, uint64_t skipped)
        : scores(given_scores.is_none() ? py::array_t<float>(static_cast<py::ssize_t>(examples))
                                        : column_of(given_scores, examples, "scores")) {
      if (given_scores.is_none()) std::fill_n(scores.mutable_data(), examples, 0.0f);
      report = {.examples = examples, .skipped = skipped, .loss_sum = loss_sum};
      report.scores = {scores.data(), static_cast<size_t>(scores.size())};
      if (!given_labels.is_none()) {
        labels = column_of(given_labels, examples, "labels");
        report.labels = {labels.data(), static_cast<size_t>(labels.size())};
      }
      if (!given_records.is_none()) {
        records = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>::ensure(given_records);
        if (!records) throw py::error_already_set();
        report.records = {records.data(), static_cast<size_t>(records.size())};
      }
    }

    py::array_t<float> scores, labels;
    py::array_t<uint64_t, py::array::c_style | py::array::forcecast> records;
    client::Report report;
  };

  Shape shape_of(size_t parameter) const {
    const auto& shape = joined_->parameters.at(parameter).shape;
    return {shape.begin(), shape.end()};
  }

  std::shared_ptr<const Joined> joined_;
  std::shared_ptr<client::Minibatch> minibatch_;  // a helper may still be in the middle of a call
  uint64_t epoch_, number_, version_;
  bool evaluate_;
  std::optional<Pulling> pulling_;
  std::vector<py::ssize_t> sizes_, dims_;  // of the lists that were pulled
  std::atomic<bool> busy_ = false;
};

}  // namespace

py::object minibatch_object(std::shared_ptr<const Joined> joined, client::Minibatch minibatch) {
  return py::cast(std::make_unique<Minibatch>(std::move(joined), std::move(minibatch)));
}

void define_minibatch(py::module_& module) {
  py::class_<Minibatch>(
      module, "Minibatch",
      "A leased minibatch: begun, pulled, waited for, and pushed (or finished, when it is evaluated).\n"
      "One that is dropped before is given back, and leased again. One thread at a time.")
      .def_property_readonly("epoch", &Minibatch::epoch, "From 1 on.")
      .def_property_readonly("number", &Minibatch::number,
                             "In its epoch, from 0 on: it decides which records it has.")
      .def_property_readonly("version", &Minibatch::version,
                             "Sync: of the model that it is computed on; else 0.")
      .def_property_readonly("evaluate", &Minibatch::evaluate,
                             "Whether it is of the test data: nothing is pushed.")
      .def("ask_to_begin", &Minibatch::ask_to_begin,
           "ask_to_begin()\n\nAsks what begin() asks, and returns at once: begin() gives the answer.")
      .def(
          "begin", &Minibatch::begin, py::arg("timeout") = py::none(),
          "begin(timeout=None) -> bool | None\n\nThe work begins: its deadline counts from here. Waits in "
          "sync "
          "mode until the "
          "version is there. False: give it back, and draw again, lowest first. None: it has not begun in so "
          "many seconds; ask again.")
      .def(
          "pull", &Minibatch::pull, py::arg("lists"), py::arg("columns") = std::vector<TableColumns>(),
          "pull([(table, keys), ...], columns=[(tables, UniqueColumns), ...])\n\nAsks for the rows of these "
          "keys, which are unique in each list, and for the parameters. Columns are more lists, those of the "
          "tables, and waited for by another thread. Returns at once.")
      .def("pull_more", &Minibatch::pull_more, py::arg("lists"),
           "pull_more([(table, keys), ...]) -> bool\n\nMore rows, once those of the pull are there; waits. "
           "Their lists come "
           "after those before. False: as wait().")
      .def("wait", &Minibatch::wait,
           "wait() -> bool\n\nWaits until they are there. False: it was refused as stale, and is over; the "
           "master leases "
           "it again.")
      .def("rows", &Minibatch::rows, py::arg("first"),
           "rows(first) -> list of float32 (keys, dim), read-only\n\nRows of each list of the pulls from the "
           "first-th on, without a copy.")
      .def("parameter", &Minibatch::parameter, py::arg("i"),
           "parameter(i) -> float32 of the parameter's shape, read-only\n\nWithout a copy.")
      .def("push", &Minibatch::push, py::arg("rows"), py::arg("parameters"), py::kw_only(),
           py::arg("examples"), py::arg("loss_sum"), py::arg("scores") = py::none(),
           py::arg("labels") = py::none(), py::arg("skipped") = 0,
           "push(rows, parameters, *, examples, loss_sum, scores=None, labels=None, skipped=0)\n\n"
           "Hands over gradients, float32, and returns at once: of each list of the pull, (keys, dim), or "
           "None; of each "
           "parameter in its shape, or None. For a buffer, its new value. Then it is over.")
      .def("finish", &Minibatch::finish, py::kw_only(), py::arg("examples"), py::arg("loss_sum"),
           py::arg("scores"), py::arg("labels") = py::none(), py::arg("records"), py::arg("skipped") = 0,
           "finish(*, examples, loss_sum, scores, labels=None, records, skipped=0)\n\nOf one that is "
           "evaluated.")
      .def("give_back", &Minibatch::give_back, "The master leases it again. Nothing if it is over.");
}

}  // namespace embers::python
