#include "storage/external/external_store.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/errors.h"
#include "storage/external/created_keys.h"
#include "storage/external/server_reads.h"
#include "storage/external/stored_name.h"
#include "storage/external/stored_value.h"
#include "storage/rows/batch_index.h"
#include "storage/rows/store_checks.h"

namespace embers::storage {
namespace {

constexpr uint32_t kSurveyRows = 1 << 14;

struct Table {
  Table(const TableSpec& spec, std::span<const float> slots, std::string_view job)
      : name(spec.name),
        dim(spec.dim),
        slot_init(slots.begin(), slots.end()),
        names(job, spec.name),
        created(spec.key_kind),
        kind(spec.key_kind) {}

  bool has_slots() const { return !slot_init.empty(); }
  size_t stride() const { return dim + slot_init.size(); }

  const std::string name;
  const size_t dim;
  const std::vector<float> slot_init;
  StoredNames names;
  CreatedKeys created;
  const KeyKind kind;
  uint64_t version = 0;
};

// Rows, with their slots, as they were looked up: all of the i-th key.
struct Looked {
  std::vector<float> values;        // [n x stride]
  std::vector<uint8_t> row, slots;  // whether they were there
  std::vector<uint64_t> row_version, slots_version;

  void reset(size_t n, size_t stride) {
    values.resize(n * stride);
    for (auto* flags : {&row, &slots}) flags->assign(n, 0);
    for (auto* versions : {&row_version, &slots_version}) versions->assign(n, 0);
  }
};

class Impl final : public ExternalStore {
 public:
  Impl(KeyValueServers servers, const ExternalOptions& options)
      : reads_(std::move(servers)),
        options_(options),
        sentinel_(StoredNames::sentinel(options.job, options.shard)),
        mark_(fmt::format("{:016x}", options.run)),
        version_name_(StoredNames::version(options.job, options.shard)) {
    if (!options.journal.empty()) journal_.emplace(options.journal, options.job, options.shard, options.run);
    guarded([&] { mark_servers(); });
  }

  void add_table(const TableSpec& spec, std::span<const float> slot_init) override {
    if (spec.dim == 0) fail(ErrorCode::kInvalid, "table '{}': dim must be at least 1", spec.name);
    if (spec.number_type != NumberType::kFloat32)
      fail(ErrorCode::kInvalid, "table '{}': rows are kept as {} only in memory, servers hold float32",
           spec.name, name(spec.number_type));
    for (const Table& table : tables_)
      if (table.name == spec.name) fail(ErrorCode::kInvalid, "table '{}' is in the store already", spec.name);
    guarded([&] { check_fits(spec, slot_init.size()); });
    tables_.emplace_back(spec, slot_init, options_.job);
    if (journal_) guarded([&] { take_up(static_cast<TableId>(tables_.size() - 1)); });
  }

  size_t gather(TableId id, KeysView keys, std::span<float> out, std::span<uint8_t> found) override {
    Table& table = at(id);
    check_kind(table.name, table.kind, keys);
    check_size(table.name, "room for rows", out.size(), keys.size(), table.dim);
    check_size(table.name, "found flags", found.size(), keys.size(), 1);
    return guarded([&] { return read_rows(id, keys, out, found); });
  }

  size_t add_if_absent(TableId id, KeysView keys, std::span<const float> values,
                       std::span<const uint8_t> found) override {
    Table& table = at(id);
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
    return guarded([&] { return add(id, fresh, rows); });
  }

  void update_rows(TableId id, KeysView keys, std::span<const float> grads, const RowsKernel& kernel,
                   uint64_t) override {
    Table& table = at(id);
    check_kind(table.name, table.kind, keys);
    check_size(table.name, "gradients", grads.size(), keys.size(), table.dim);
    if (keys.empty()) return;
    guarded([&] {
      batch_.assign(keys);
      look_up_rows_and_slots(id, keys);
      initialize_unknown_slots(table, keys);
      apply_kernel(table, keys, grads, kernel);
      stage(id, keys);
      if (!applying_) write_back({});
    });
  }

  void apply(const Note& note, const std::function<void()>& updates) override {
    staged_ = 0;
    applying_ = true;
    try {
      updates();
    } catch (...) {
      staged_ = 0;
      applying_ = false;
      throw;
    }
    applying_ = false;
    guarded([&] { write_back(note); });
  }

  void keep(const Note& note) override {
    if (journal_) journal_->note(note);
  }

  bool recovered() const override { return journal_ && journal_->found(); }
  std::vector<std::string> take_notes() override {
    return journal_ ? journal_->take_notes() : std::vector<std::string>();
  }

  void restore(TableId id, KeysView keys, std::span<const float> values) override {
    Table& table = at(id);
    check_kind(table.name, table.kind, keys);
    check_size(table.name, "rows with slots", values.size(), keys.size(), table.stride());
    if (keys.empty()) return;
    check_fits(table, keys);
    guarded([&] {
      // The last of several values of a key counts.
      const std::vector<float> last = batch_.last_of_each(keys, values, table.stride());
      adopt_all(id, keys);
      table.names.assign(keys, table.has_slots());
      looked_.values = last;
      stage(id, keys);
      write_back({});
    });
  }

  uint64_t scan(TableId id, uint64_t cursor, size_t limit, const Visitor& visit) override {
    Table& table = at(id);
    if (limit == 0)
      fail(ErrorCode::kInvalid, "table '{}': a scan must ask for at least one row at a time", table.name);
    if (cursor >= table.created.size()) return kScanEnd;
    const auto begin = static_cast<uint32_t>(cursor);
    const KeysView keys = table.created.view(begin, std::min<size_t>(limit, table.created.size() - begin));
    guarded([&] {
      look_up_rows_and_slots(id, keys);
      initialize_unknown_slots(table, keys);
    });
    visit(keys, looked_.values);
    const uint64_t next = cursor + keys.size();
    return next < table.created.size() ? next : kScanEnd;
  }

  uint64_t rows(TableId id) const override { return tables_[index(id)].created.size(); }
  uint64_t version(TableId id) const override { return tables_[index(id)].version; }

  void publish(uint64_t version) override {
    guarded([&] {
      value_.clear();
      append_value(value_, version_name_, {options_.run, version, options_.shard}, {}, {});
      server(version_name_).set(version_name_, value_);
      server(version_name_).flush();
    });
  }

  // At the servers by the size of the values, here the keys.
  uint64_t resident_bytes() const override {
    uint64_t bytes = 0;
    for (const Table& table : tables_)
      bytes += table.created.resident_bytes() +
               table.created.size() *
                   (kValueHeader * (table.has_slots() ? 2 : 1) + table.stride() * sizeof(float));
    return bytes;
  }

 private:
  size_t index(TableId id) const {
    if (id >= tables_.size())
      fail(ErrorCode::kUnknownTable, "there is no table number {}: the store holds {}", id, tables_.size());
    return id;
  }
  Table& at(TableId id) { return tables_[index(id)]; }

  const std::vector<std::unique_ptr<KeyValueServer>>& servers() const { return reads_.servers(); }
  size_t server_of(std::string_view name) const { return reads_.server_of(name); }
  KeyValueServer& server(std::string_view name) const { return *servers()[server_of(name)]; }

  // --- the five steps of update ------------------------------------------------------------------

  void look_up_rows_and_slots(TableId id, KeysView keys) {
    Table& table = at(id);
    const size_t n = keys.size();
    looked_.reset(n, table.stride());
    table.names.assign(keys, table.has_slots());
    reads_.fetch(table.names.names(), [&](size_t i, std::string_view name, std::string_view value) {
      const bool slots = i >= n;
      if (slots) i -= n;
      const std::span<float> all(&looked_.values[i * table.stride()], table.stride());
      ValueTag tag;
      if (!read_value(value, name, options_.run, table.names.rest(keys, i), tag,
                      slots ? all.subspan(table.dim) : all.first(table.dim)))
        return;
      (slots ? looked_.slots : looked_.row)[i] = 1;
      (slots ? looked_.slots_version : looked_.row_version)[i] = tag.version;
      if (!slots) adopt(table, keys, i, tag.writer);
    });
    journal_adopted(id);
    for (size_t i = 0; i < n; ++i)
      if (!looked_.row[i]) fail_missing(table, keys, i);
  }

  void initialize_unknown_slots(Table& table, KeysView keys) {
    if (!table.has_slots()) return;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (looked_.slots[i] && looked_.slots_version[i] == looked_.row_version[i]) continue;
      // Slots are written with the first update of their row, and with every later one.
      if (looked_.slots[i] || looked_.row_version[i] != 0) fail_lost(table, keys, i, true);
      std::copy(table.slot_init.begin(), table.slot_init.end(),
                &looked_.values[i * table.stride() + table.dim]);
    }
  }

  void apply_kernel(const Table& table, KeysView keys, std::span<const float> grads,
                    const RowsKernel& kernel) {
    const std::span<float> values(looked_.values);
    rows_.clear();
    for (size_t i = 0; i < keys.size(); ++i) rows_.push_back(&values[batch_.first(i) * table.stride()]);
    kernel({rows_, table.dim, table.stride() - table.dim, grads});
    // Every place of a key that comes twice gets its result, so that it does not matter which is written.
    for (size_t i = 0; i < keys.size(); ++i)
      if (batch_.first(i) != i)
        std::copy_n(&values[batch_.first(i) * table.stride()], table.stride(), &values[i * table.stride()]);
  }

  void write_rows_back(const Table& table, KeysView keys, std::span<const float> values) {
    for (size_t i = 0; i < keys.size(); ++i)
      set(table, keys, i, table.names.names()[i], values.subspan(i * table.stride(), table.dim));
  }

  void write_slots_back(const Table& table, KeysView keys, std::span<const float> values) {
    if (!table.has_slots()) return;
    for (size_t i = 0; i < keys.size(); ++i)
      set(table, keys, i, table.names.names()[keys.size() + i],
          values.subspan(i * table.stride() + table.dim, table.slot_init.size()));
  }

  // --- what they and the others are made of ------------------------------------------------------

  std::string_view encode(const Table& table, KeysView keys, size_t i, std::string_view name,
                          uint64_t version, std::span<const float> floats) {
    value_.clear();
    append_value(value_, name, {options_.run, version, options_.shard}, floats, table.names.rest(keys, i));
    return value_;
  }

  void set(const Table& table, KeysView keys, size_t i, std::string_view name,
           std::span<const float> floats) {
    server(name).set(name, encode(table, keys, i, name, table.version, floats));
  }

  // What was computed of a table, in looked_, becomes part of the next write-back. Its names are those of the
  // keys.
  void stage(TableId id, KeysView keys) {
    for (size_t i = 0; i < staged_; ++i)
      if (parts_staged_[i].table == id)
        fail(ErrorCode::kInternal, "table '{}' is updated twice in one apply", at(id).name);
    if (parts_staged_.size() == staged_) {
      parts_staged_.emplace_back();
      values_staged_.emplace_back();
    }
    values_staged_[staged_].swap(looked_.values);
    parts_staged_[staged_] = {id, at(id).version + 1, keys, values_staged_[staged_]};
    ++staged_;
  }

  // Steps 4 and 5 of all tables that were staged, acknowledged; with a journal, noted down before.
  void write_back(const Note& note) {
    const std::span<const WriteBackJournal::Part> parts(parts_staged_.data(), std::exchange(staged_, 0));
    if (journal_) journal_->begin(parts, note);
    for (const WriteBackJournal::Part& part : parts) {
      Table& table = at(part.table);
      table.version = part.version;
      write_rows_back(table, part.keys, part.floats);
      write_slots_back(table, part.keys, part.floats);
    }
    if (!parts.empty()) barrier();
    if (journal_) journal_->done();
  }

  size_t read_rows(TableId id, KeysView keys, std::span<float> out, std::span<uint8_t> found) {
    Table& table = at(id);
    const ServerReads::TableRead read{&table.names, table.dim, keys, out, found};
    const size_t count = reads_.gather(options_.run, {&read, 1}, [&](size_t, size_t i, const ValueTag& tag) {
      adopt(table, keys, i, tag.writer);
    });
    journal_adopted(id);
    if (count < keys.size())
      for (size_t i = 0; i < keys.size(); ++i)
        if (!found[i] && table.created.contains(keys, i)) fail_lost(table, keys, i, false);
    return count;
  }

  // Adds rows that nobody of this store knew. A row that an older run of the job left behind is written over.
  size_t add(TableId id, KeysView keys, std::span<const float> rows) {
    Table& table = at(id);
    table.names.assign(keys, false);
    const auto& names = table.names.names();
    const auto first = [&](size_t i) {
      return encode(table, keys, i, names[i], 0, rows.subspan(i * table.dim, table.dim));
    };
    for (size_t i = 0; i < keys.size(); ++i) server(names[i]).add(names[i], first(i));
    barrier();
    std::vector<size_t> stale;
    std::vector<float> there(table.dim);
    std::vector<uint8_t> mine(keys.size());
    reads_.fetch(names, [&](size_t i, std::string_view name, std::string_view value) {
      ValueTag tag;
      if (read_value(value, name, options_.run, table.names.rest(keys, i), tag, there))
        mine[i] = tag.writer == options_.shard;
      else
        stale.push_back(i);
    });
    for (const size_t i : stale) {
      server(names[i]).set(names[i], first(i));
      mine[i] = 1;
    }
    if (!stale.empty()) barrier();
    if (journal_) journal_->created(id, keys);
    return static_cast<size_t>(std::count(mine.begin(), mine.end(), 1));
  }

  // --- keys ----------------------------------------------------------------------------------------

  // A row that was found: what this shard wrote it knows, unless its journal may have missed the last.
  void adopt(Table& table, KeysView keys, size_t i, uint32_t writer) {
    if (writer == options_.shard && !recovered()) return;
    if (!table.created.insert(keys, i) || !journal_) return;
    if (adopted_.kind() != keys.kind) adopted_ = Keys(keys.kind);
    adopted_.push_back_from(keys, i);
  }
  void adopt_all(TableId id, KeysView keys) {
    for (size_t i = 0; i < keys.size(); ++i) adopt(at(id), keys, i, ~options_.shard);
    journal_adopted(id);
  }
  void journal_adopted(TableId id) {
    if (adopted_.empty()) return;
    journal_->created(id, adopted_);
    adopted_.clear();
  }

  // Takes up what the shard's last process left of a table; with the last of the tables whose write-back was
  // cut off, finishes that.
  void take_up(TableId id) {
    Table& table = at(id);
    for (const Keys& keys : journal_->take_created(id)) {
      check_kind(table.name, table.kind, keys);
      for (size_t i = 0; i < keys.size(); ++i) table.created.insert(keys, i);
    }
    table.version = journal_->version(id);
    if (id == 0) pending_ = journal_->take_pending();
    for (const auto& part : pending_)
      if (part.table > id) return;
    if (!pending_.empty()) finish(std::exchange(pending_, {}));
  }

  void finish(const std::vector<WriteBackJournal::OwnedPart>& parts) {
    for (const auto& part : parts) {
      Table& table = at(part.table);
      check_kind(table.name, table.kind, part.keys);
      check_size(table.name, "rows with slots of the journal", part.floats.size(), part.keys.size(),
                 table.stride());
      table.names.assign(part.keys, table.has_slots());
      write_rows_back(table, part.keys, part.floats);
      write_slots_back(table, part.keys, part.floats);
    }
    barrier();
    journal_->done();
  }

  void check_fits(const TableSpec& spec, size_t slot_floats) {
    for (const auto& server : servers())
      if (const uint64_t bytes = value_bytes(spec.dim, slot_floats); bytes > server->longest_value())
        fail(ErrorCode::kInvalid,
             "table '{}': its rows or slots of {} bytes do not fit into server {}, which takes {} bytes a "
             "value: start "
             "it with a larger item size (memcached -I {}m), or use a smaller dim",
             spec.name, bytes, server->address(), server->longest_value(), (bytes >> 20) + 2);
  }

  // Only a key that its value repeats can still be too long.
  void check_fits(const Table& table, KeysView keys) {
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

  // --- loss ----------------------------------------------------------------------------------------

  // Leaves the mark of this run at every server, to be found there for as long as the server keeps what it
  // was given.
  void mark_servers() {
    for (const auto& server : servers()) {
      longest_value_ = std::min(longest_value_, server->longest_value());
      const auto health = server->barrier(sentinel_);
      evictions_.push_back(health.evictions);
      if (health.sentinel != mark_ && recovered())
        fail(ErrorCode::kLost,
             "server {} was restarted or flushed while shard {} of job '{}' was away: go on from the last "
             "checkpoint (--resume)",
             server->address(), options_.shard, options_.job);
      server->set(sentinel_, mark_);
    }
    barrier();
  }

  // Until every write before has been carried out, with nothing lost.
  void barrier() {
    for (size_t s = 0; s < servers().size(); ++s) {
      const auto health = servers()[s]->barrier(sentinel_);
      if (!health.refused_writes.empty()) report_loss(s, "refused a write: " + health.refused_writes);
      if (health.sentinel != mark_) report_loss(s, why_unmarked(health.sentinel));
      if (health.evictions == std::exchange(evictions_[s], health.evictions)) continue;
      // On a server that others use it may have been theirs.
      if (survey(s).gone > 0) report_loss(s, "evicted items for want of memory");
    }
  }

  std::string why_unmarked(const std::string& sentinel) const {
    return sentinel.empty() ? "was restarted or flushed"
                            : fmt::format("is used by another run of a job '{}' (job.name)", options_.job);
  }

  [[noreturn]] void fail_missing(Table& table, KeysView keys, size_t i) {
    if (table.created.contains(keys, i)) fail_lost(table, keys, i, false);
    fail_missing_key(table.name, keys, i);
  }

  // The row of this key, or its slots, should be there, at this version.
  [[noreturn]] void fail_lost(Table& table, KeysView keys, size_t i, bool slots) {
    const size_t s = server_of(table.names.names()[slots ? keys.size() + i : i]);
    const std::string key = to_string(keys, i);
    barrier();  // knows more
    report_loss(s,
                fmt::format("lost the {} of key {} of table '{}'", slots ? "slots" : "row", key, table.name));
  }

  [[noreturn]] void report_loss(size_t s, const std::string& what) {
    const Survey found = survey(s);
    fail(
        ErrorCode::kLost,
        "server {} {}: {} of the {} rows of job '{}' that it held for shard {} are gone; go on from the last "
        "checkpoint (--resume), with servers of more memory if they ran out of it",
        servers()[s]->address(), what, found.gone, found.held, options_.job, options_.shard);
  }

  struct Survey {
    uint64_t held = 0, gone = 0;
  };

  // Asks for every row and its slots that should be at this server.
  Survey survey(size_t s) {
    Survey result;
    for (Table& table : tables_)
      for (uint32_t begin = 0; begin < table.created.size(); begin += kSurveyRows) {
        const KeysView keys = table.created.view(begin, std::min(kSurveyRows, table.created.size() - begin));
        StoredNames names(options_.job, table.name);
        names.assign(keys, table.has_slots());
        const size_t n = keys.size();
        std::vector<uint8_t> there(names.names().size());
        std::vector<uint64_t> version(n);
        reads_.fetch(names.names(), [&](size_t i, std::string_view, std::string_view value) {
          const ValueTag tag = tag_of(value);
          there[i] = tag.run == options_.run;
          if (i < n) version[i] = tag.version;
        });
        for (size_t i = 0; i < n; ++i) {
          const bool row_here = server_of(names.names()[i]) == s;
          const bool slots_here = table.has_slots() && server_of(names.names()[n + i]) == s;
          result.held += row_here || slots_here;
          result.gone +=
              (row_here && !there[i]) || (slots_here && !there[n + i] && there[i] && version[i] != 0);
        }
      }
    return result;
  }

  // Runs `body`; a server that cannot be reached is the loss of all it holds, once and for all: whoever asks
  // after that waits for no server.
  template <class Body>
  auto guarded(Body&& body) -> decltype(body()) {
    if (unreachable_) throw Error(*unreachable_);
    try {
      return body();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnavailable) throw;
      unreachable_ = unreachable(e.what());
      throw Error(*unreachable_);
    }
  }

  Error unreachable(const std::string& why) {
    try {
      for (const auto& server : servers()) server->reconnect();
      barrier();  // one that came up again has another tale to tell
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kUnavailable) return e;
    }
    uint64_t rows = 0;
    for (const Table& table : tables_) rows += table.created.size();
    return Error(ErrorCode::kLost,
                 fmt::format("{}; shard {} of job '{}' kept {} rows on {} servers: go on from the last "
                             "checkpoint (--resume)",
                             why, options_.shard, options_.job, rows, servers().size()));
  }

  // Constant after construction, but for what is under way at the servers.
  ServerReads reads_;
  const ExternalOptions options_;
  const std::string sentinel_, mark_, version_name_;

  std::optional<WriteBackJournal> journal_;
  std::deque<Table> tables_;
  uint64_t longest_value_ = UINT64_MAX;  // that every server takes
  std::vector<uint64_t> evictions_;      // of each server, when last looked
  std::optional<Error> unreachable_;     // what every call answers once a server could not be reached

  // Scratch of one call.
  Looked looked_;
  BatchIndex batch_;
  bool applying_ = false;  // within apply()
  size_t staged_ = 0;      // of the next two: tables that wait to be written back
  std::vector<WriteBackJournal::Part> parts_staged_;
  std::vector<std::vector<float>> values_staged_;
  std::vector<WriteBackJournal::OwnedPart> pending_;  // of the shard's last process
  Keys adopted_;
  std::string value_;
  std::vector<float*> rows_;
};

}  // namespace

std::unique_ptr<ExternalStore> make_external_store(KeyValueServers servers, const ExternalOptions& options) {
  return std::make_unique<Impl>(std::move(servers), options);
}

}  // namespace embers::storage
