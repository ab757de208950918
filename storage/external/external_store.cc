#include "storage/external/external_store.h"

#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "storage/external/external_tables.h"
#include "storage/external/loss_watch.h"
#include "storage/external/server_reads.h"
#include "storage/external/stored_name.h"
#include "storage/external/stored_value.h"
#include "storage/external/update_steps.h"
#include "storage/external/write_back.h"
#include "storage/memory/page_filler.h"
#include "storage/rows/batch_index.h"
#include "storage/rows/store_checks.h"

namespace embers::storage {
namespace {

std::optional<WriteBackJournal> open_journal(const ExternalOptions& options) {
  if (options.journal.empty()) return std::nullopt;
  return std::optional<WriteBackJournal>(std::in_place, options.journal, options.job, options.owner,
                                         options.run, options.takes_over, *options.disk);
}

class Impl final : public ExternalStore {
 public:
  Impl(KeyValueServers servers, const ExternalOptions& options, std::shared_ptr<PageFiller> filler)
      : options_(options),
        filler_(filler ? std::move(filler) : std::make_shared<PageFiller>()),
        reads_(std::move(servers)),
        journal_(open_journal(options)) {
    loss_.guarded([&] {
      for (const auto& server : reads_.servers())
        longest_value_ = std::min(longest_value_, server->longest_value());
      loss_.mark_servers(recovered());
    });
  }

  void add_table(const TableSpec& spec, std::span<const float> slot_init) override {
    if (spec.dim == 0) fail(ErrorCode::kInvalid, "table '{}': dim must be at least 1", spec.name);
    if (spec.number_type != NumberType::kFloat32)
      fail(ErrorCode::kInvalid, "table '{}': rows are kept as {} only in memory; servers hold float32",
           spec.name, name(spec.number_type));
    loss_.guarded([&] { check_fits(spec, slot_init.size()); });
    const TableId id = tables_.add(spec, slot_init);
    if (!journal_) return;
    loss_.guarded([&] {
      tables_.take_up(id);
      write_back_.finish_up_to(id);
    });
  }

  size_t gather(TableId id, KeysView keys, std::span<float> out, std::span<uint8_t> found, ReadBy) override {
    const ExternalTable& table = tables_.at(id);
    check_kind(table.name, table.kind, keys);
    check_size(table.name, "room for rows", out.size(), keys.size(), table.dim);
    check_size(table.name, "found flags", found.size(), keys.size(), 1);
    return loss_.guarded([&] { return read_rows(id, keys, out, found); });
  }

  size_t add_if_absent(TableId id, KeysView keys, std::span<const float> values,
                       std::span<const uint8_t> found) override {
    ExternalTable& table = tables_.at(id);
    check_kind(table.name, table.kind, keys);
    check_size(table.name, "initial values", values.size(), keys.size(), table.dim);
    if (!found.empty()) check_size(table.name, "found flags", found.size(), keys.size(), 1);
    check_fits(table, keys);
    Keys fresh(table.kind);
    std::vector<float> rows;
    for (size_t i = 0; i < keys.size(); ++i) {
      if ((!found.empty() && found[i]) || !table.created.insert(keys, i)) continue;
      fresh.push_back_from(keys, i);
      const auto row = values.subspan(i * table.dim, table.dim);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    if (fresh.empty()) return 0;
    return loss_.guarded([&] { return create_rows(id, fresh, rows); });
  }

  void update_rows(TableId id, KeysView keys, std::span<const float> grads, const RowsKernel& kernel,
                   uint64_t) override {
    const ExternalTable& table = tables_.at(id);
    check_kind(table.name, table.kind, keys);
    check_size(table.name, "gradients", grads.size(), keys.size(), table.dim);
    if (keys.empty()) return;
    loss_.guarded([&] {
      steps_.look_up_rows_and_slots(id, keys);
      steps_.initialize_unknown_slots(id, keys);
      steps_.apply_update_rule(id, keys, grads, kernel);
      write_back_.stage(id, keys, steps_.values());
      if (!applying_) write_back_.run({});
    });
  }

  void apply(const Note& note, const std::function<void()>& updates) override {
    write_back_.discard();
    applying_ = true;
    try {
      updates();
    } catch (...) {
      write_back_.discard();
      applying_ = false;
      throw;
    }
    applying_ = false;
    loss_.guarded([&] { write_back_.run(note); });
  }

  void keep(const Note& note) override {
    if (journal_) journal_->note(note);
  }

  bool recovered() const override { return journal_ && journal_->found(); }
  std::vector<std::string> take_notes() override {
    return journal_ ? journal_->take_notes() : std::vector<std::string>();
  }

  void restore(TableId id, KeysView keys, std::span<const float> values) override {
    ExternalTable& table = tables_.at(id);
    check_kind(table.name, table.kind, keys);
    check_size(table.name, "rows with slots", values.size(), keys.size(), table.stride());
    if (keys.empty()) return;
    check_fits(table, keys);
    loss_.guarded([&] {
      // The last of several values of a key counts.
      std::vector<float> last = BatchIndex().last_of_each(keys, values, table.stride());
      tables_.adopt_all(id, keys);
      table.names.assign(keys, table.has_slots());
      write_back_.stage(id, keys, last);
      write_back_.run({});
    });
  }

  uint64_t scan(TableId id, uint64_t cursor, size_t limit, const Visitor& visit) override {
    ExternalTable& table = tables_.at(id);
    if (limit == 0)
      fail(ErrorCode::kInvalid, "table '{}': a scan must ask for at least one row at a time", table.name);
    if (cursor >= table.created.size()) return kScanEnd;
    const auto begin = static_cast<uint32_t>(cursor);
    const KeysView keys = table.created.view(begin, std::min<size_t>(limit, table.created.size() - begin));
    loss_.guarded([&] {
      steps_.look_up_rows_and_slots(id, keys);
      steps_.initialize_unknown_slots(id, keys);
    });
    visit(keys, steps_.values());
    const uint64_t next = cursor + keys.size();
    return next < table.created.size() ? next : kScanEnd;
  }

  uint64_t rows(TableId id) const override { return tables_.at(id).created.size(); }
  uint64_t version(TableId id) const override { return tables_.at(id).version; }

  void publish(uint64_t version) override {
    loss_.guarded([&] {
      std::string value;
      append_value(value, version_name_, {options_.run, version, options_.owner}, {}, {});
      reads_.server(version_name_).set(version_name_, value);
      reads_.server(version_name_).flush();
    });
  }

  // What the servers hold, computed from the size of the values, and the keys that are held here.
  uint64_t resident_bytes() const override {
    uint64_t bytes = 0;
    for (const ExternalTable& table : tables_)
      bytes += table.created.resident_bytes() +
               table.created.size() *
                   (kValueHeader * (table.has_slots() ? 2 : 1) + table.stride() * sizeof(float));
    return bytes;
  }

 private:
  size_t read_rows(TableId id, KeysView keys, std::span<float> out, std::span<uint8_t> found) {
    ExternalTable& table = tables_.at(id);
    const ServerReads::TableRead read{&table.names, table.dim, keys, out, found};
    const size_t count = reads_.gather(options_.run, {&read, 1}, [&](size_t, size_t i, const ValueTag& tag) {
      tables_.adopt(id, keys, i, tag.writer);
    });
    tables_.note_adopted(id);
    if (count < keys.size())
      for (size_t i = 0; i < keys.size(); ++i)
        if (!found[i] && table.created.contains(keys, i))
          loss_.fail_lost(table, keys, i, LossWatch::Part::kRow);
    return count;
  }

  // Adds rows of keys that this store does not know yet, and returns how many are this owner's. A row that an
  // older run of the job left behind is overwritten.
  size_t create_rows(TableId id, KeysView keys, std::span<const float> rows) {
    ExternalTable& table = tables_.at(id);
    table.names.assign(keys, false);
    const auto& names = table.names.names();
    const auto first_value = [&](size_t i) {
      return steps_.encode(table, keys, i, names[i], 0, rows.subspan(i * table.dim, table.dim));
    };
    for (size_t i = 0; i < keys.size(); ++i) reads_.server(names[i]).add(names[i], first_value(i));
    loss_.barrier();
    std::vector<size_t> stale;
    std::vector<float> there(table.dim);
    std::vector<uint8_t> mine(keys.size()), known(keys.size());
    reads_.fetch(names, [&](size_t i, std::string_view name, std::string_view value) {
      known[i] = 1;
      ValueTag tag;
      if (read_value(value, name, options_.run, table.names.rest(keys, i), tag, there))
        mine[i] = tag.writer == options_.owner;
      else
        stale.push_back(i);
    });
    if (const auto refused = std::find(known.begin(), known.end(), 0); refused != known.end())
      loss_.fail_lost(table, keys, static_cast<size_t>(refused - known.begin()), LossWatch::Part::kRow);
    for (const size_t i : stale) {
      reads_.server(names[i]).set(names[i], first_value(i));
      mine[i] = 1;
    }
    if (!stale.empty()) loss_.barrier();
    if (journal_) journal_->created(id, keys);
    return static_cast<size_t>(std::count(mine.begin(), mine.end(), 1));
  }

  void check_fits(const TableSpec& spec, size_t slot_floats) {
    for (const auto& server : reads_.servers())
      if (const uint64_t bytes = value_bytes(spec.dim, slot_floats); bytes > server->longest_value())
        fail(ErrorCode::kInvalid,
             "table '{}': its rows or slots of {} bytes do not fit into server {}, which takes {} bytes per "
             "value: start it with a larger item size (memcached -I {}m), or use a smaller dim",
             spec.name, bytes, server->address(), server->longest_value(), (bytes >> 20) + 2);
  }

  // Only a key that its value repeats can still be too long.
  void check_fits(const ExternalTable& table, KeysView keys) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const size_t rest = table.names.rest(keys, i).size();
      if (rest > 0 && value_bytes(table.dim, table.slot_init.size()) + rest > longest_value_)
        fail(ErrorCode::kInvalid,
             "table '{}': a key of {} bytes and its row are more than the {} bytes that a server takes",
             table.name, rest, longest_value_);
    }
  }

  static uint64_t value_bytes(size_t dim, size_t slot_floats) {
    return kValueHeader + std::max(dim, slot_floats) * sizeof(float);
  }

  WriteBackJournal* journal() { return journal_ ? &*journal_ : nullptr; }

  const ExternalOptions options_;
  const std::string version_name_ = StoredNames::version(options_.job, options_.owner);
  uint64_t longest_value_ = UINT64_MAX;  // the longest that every server takes
  bool applying_ = false;                // within apply()

  const std::shared_ptr<PageFiller> filler_;
  ServerReads reads_;
  std::optional<WriteBackJournal> journal_;
  ExternalTables tables_{options_, journal(), filler_.get()};
  LossWatch loss_{reads_, tables_, options_};
  UpdateSteps steps_{reads_, tables_, loss_, options_};
  WriteBack write_back_{tables_, steps_, loss_, journal()};
};

}  // namespace

std::unique_ptr<ExternalStore> make_external_store(KeyValueServers servers, const ExternalOptions& options,
                                                   std::shared_ptr<PageFiller> filler) {
  return std::make_unique<Impl>(std::move(servers), options, std::move(filler));
}

}  // namespace embers::storage
