#include "actors/owner/shard.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "actors/errors.h"
#include "actors/spawn.h"
#include "base/cpus.h"
#include "storage/apply.h"
#include "storage/initializers/initializer.h"
#include "storage/journal/write_back_journal.h"
#include "storage/rows/store.h"

namespace embers {
namespace {

// Rows, slots and what is needed to create and change them. Owned by the shard actor.
class Rows {
 public:
  explicit Rows(const OwnerConfig& config) : config_(config) {
    make_store();
    for (const TableSpec& spec : config_.tables) {
      initializers_.push_back(storage::Initializer::make(config_.seed, spec));
      rules_.push_back(storage::UpdateRule::make(spec.update_rule));
      constraints_.push_back(storage::Constraint::make(spec.constraint));
      slot_init_.push_back(storage::slot_init(*rules_.back(), spec.dim));
      store_->add_table(spec, slot_init_.back());
    }
    if (external_ != nullptr) recover();
  }

  // Notes that the owner's last process left.
  const std::vector<AppliedNote>& left() const { return left_; }

  uint64_t version() const { return version_; }
  void note(const AppliedNote& note) {
    if (external_ != nullptr) external_->keep(to_note(note));
    version_ = note.version;
    try {
      publish();
    } catch (const Error&) {  // the store reports what is wrong with its servers whenever it is asked
    }
  }

  // `memory`: where the answer is built; null for the heap.
  Message<wire::PullReply> pull(wire::PullRequest::Reader request, WordsMemory* memory) {
    UnpackedKeys keys;
    const auto tables = read_slices(request.getTables(), config_.tables.size(), false, &keys);
    std::vector<RowsShape> shapes;
    const NumberType rows_as = number_type(request.getNumberType());
    for (const TableSlices& t : tables)
      shapes.push_back(
          {t.table, config_.tables[t.table].dim, t.keys.size(), sent_as(config_.tables[t.table], rows_as)});
    config_.activity->pulls.fetch_add(1, std::memory_order_relaxed);
    const auto fill = [&](size_t i, std::span<float> out) {
      lookup(tables[i].table, tables[i].keys, request.getCreate(), out);
    };
    return make_pull_reply(version_, shapes, fill, memory, own_step(request.getOrigin().getIncarnation()));
  }

  void apply(const ApplyBatch& batch) {
    if (external_ != nullptr)
      external_->apply(to_note(batch.note), [&] { apply_tables(batch); });
    else
      apply_tables(batch);
    version_ = batch.version;
    if (batch.sender_step > 0) {
      uint64_t& last = own_steps_[batch.sender];
      last = std::max(last, batch.sender_step);  // threads of one sender may push in another order
    }
    publish();
  }

  void apply_tables(const ApplyBatch& batch) {
    for (const TableSlices& t : batch.tables) {
      const storage::UpdateRule& rule = *rules_[t.table];
      const storage::LeftOut left_out = storage::apply(
          *store_, t.table, rule, {batch.step, rule.learning_rate(batch.step) * batch.rate_factor}, t.keys,
          t.values, constraints_[t.table].get());
      left_out_ += left_out.rows;
      if (left_out.rows > 0 && config_.tables[t.table].is_part())
        fail(ErrorCode::kInvalid,
             "step {} would make the row of key '{}' of table '{}' infinite or NaN, and a row whose columns "
             "are "
             "spread over shards cannot be left out: lower the learning rate, clip gradients, or set "
             "partition = "
             "\"token\"",
             batch.step, to_string(t.keys, left_out.first), config_.tables[t.table].name);
      if (left_out.rows > 0 && !config_.skip_bad_gradients)
        fail(ErrorCode::kInvalid,
             "step {} would make the row of key '{}' of table '{}' infinite or NaN: lower the learning rate, "
             "clip "
             "gradients, or set training.on_bad_gradient = \"skip\"",
             batch.step, to_string(t.keys, left_out.first), config_.tables[t.table].name);
    }
  }

  void restore(wire::RestoreRequest::Reader request) {
    for (const TableSlices& t : read_slices(request.getTables(), config_.tables.size())) {
      if (t.keys.empty()) continue;
      if (request.getOnlyAbsent())
        store_->add_if_absent(t.table, t.keys, t.values);
      else
        store_->restore(t.table, t.keys, t.values);
    }
  }

  void import_rows(wire::ImportRequest::Reader request) {
    const uint64_t number = request.getNumber();
    if (number == 0) fail(ErrorCode::kBadFrame, "an import without a number");
    std::set<uint64_t>& taken = imports_[request.getIncarnation()];
    if (taken.contains(number) || (taken.size() == kMostImports && number < *taken.begin())) return;
    for (const TableSlices& t : read_slices(request.getTables(), config_.tables.size())) {
      const TableSpec& spec = config_.tables[t.table];
      if (is_reserved(spec.name) || t.width != spec.dim)
        fail(ErrorCode::kInvalid, "rows of {} floats cannot be imported into table '{}' of dim {}", t.width,
             spec.name, spec.dim);
      if (t.keys.empty()) continue;
      const std::vector<float>& slots = slot_init_[t.table];
      std::vector<float> values;
      values.reserve(t.keys.size() * (spec.dim + slots.size()));
      for (size_t i = 0; i < t.keys.size(); ++i) {
        const auto row = t.values.subspan(i * spec.dim, spec.dim);
        values.insert(values.end(), row.begin(), row.end());
        values.insert(values.end(), slots.begin(), slots.end());
      }
      store_->restore(t.table, t.keys, values);
    }
    taken.insert(number);
    if (taken.size() > kMostImports) taken.erase(taken.begin());
  }

  Message<wire::ScanReply> scan(wire::ScanRequest::Reader request) {
    const TableId id = request.getTable();
    if (id >= config_.tables.size())
      fail(ErrorCode::kUnknownTable, "cannot scan table number {}: the job has {} tables", id,
           config_.tables.size());
    const uint32_t dim = config_.tables[id].dim;
    const uint32_t stride = dim + static_cast<uint32_t>(slot_init_[id].size());
    const size_t limit = std::min<size_t>(request.getLimit(), kScanBytes / (stride * sizeof(float)) + 1);
    Keys keys(config_.tables[id].key_kind);
    std::vector<float> values;
    const uint64_t next =
        store_->scan(id, request.getCursor(), limit, [&](KeysView k, std::span<const float> v) {
          keys = Keys(k);
          if (request.getSlots())
            values.assign(v.begin(), v.end());
          else
            for (size_t i = 0; i < k.size(); ++i)
              values.insert(values.end(), v.begin() + i * stride, v.begin() + i * stride + dim);
        });
    return make_scan_reply(next, {id, keys, request.getSlots() ? stride : dim, values});
  }

  StoreStats stats() const {
    StoreStats s{0, store_->resident_bytes(), left_out_};
    for (TableId t = 0; t < config_.tables.size(); ++t)
      // A row whose columns are spread over owners counts once, where its first ones are.
      if (!is_reserved(config_.tables[t].name) && config_.tables[t].first_column == 0)
        s.rows += store_->rows(t);
    config_.activity->rows = s.rows;
    config_.activity->bytes = s.resident_bytes;
    return s;
  }

 private:
  static constexpr storage::ReadBy kReader = storage::ReadBy::kOtherThread;
  static constexpr size_t kScanBytes = 4 << 20;
  static constexpr size_t kMostImports = 1000;  // of one sender, that may be asked again

  // The last one of this sender that the rows have. What the owner's last process has applied is not known.
  uint64_t own_step(uint64_t sender) const {
    const auto last = own_steps_.find(sender);
    if (last != own_steps_.end()) return last->second;
    return left_.empty() && !config_.takes_over ? 0 : UINT64_MAX;
  }

  void make_store() {
    if (config_.backend == "memory") {
      store_ = storage::make_memory_store(config_.page_filler);
      return;
    }
    storage::ExternalOptions options = config_.external;
    options.takes_over = config_.takes_over;
    auto external = storage::make_external_store(servers(), options, config_.page_filler);
    external_ = external.get();
    store_ = std::move(external);
  }

  storage::KeyValueServers servers() const {
    if (config_.connect_servers) return config_.connect_servers();
    return storage::connect_servers(config_.backend, config_.servers, config_.timeouts, config_.login);
  }

  // For workers that read straight from the servers.
  void publish() {
    if (external_) external_->publish(version_);
  }

  void recover() {
    for (const std::string& bytes : external_->take_notes()) left_.push_back(read_note(bytes));
    if (!left_.empty()) version_ = left_.back().version;
    if (config_.takes_over && left_.empty())
      storage::fail_without_journal(config_.number, config_.external.journal);
    if (!left_.empty()) publish();
  }

  // The seed's lookup_embedding: gets; initial values for unknown keys; set if not exists; gets again; a key
  // still missing is an error. Without `create` unknown keys read as their initial values and stay unknown.
  void lookup(TableId id, KeysView keys, bool create, std::span<float> out) {
    found_.resize(keys.size());
    const TableSpec& spec = config_.tables[id];
    const auto first_values = [&](std::span<float> to, std::span<const uint8_t> found) {
      initializers_[id]->fill(keys, to, found);
    };
    if (create && !is_reserved(spec.name)) {
      if (store_->gather_or_create(id, keys, first_values, out, found_, kReader) != keys.size())
        fail_missing(spec, keys);
      return;
    }
    if (store_->gather(id, keys, out, found_, kReader) == keys.size()) return;
    if (is_reserved(spec.name)) fail_missing(spec, keys);
    first_values(out, found_);
    round_unknown(spec, out);
  }

  // Rounds rows that are not stored as storing them would, so that both read alike.
  void round_unknown(const TableSpec& spec, std::span<float> out) const {
    for (size_t i = 0; i < found_.size(); ++i)
      if (!found_[i]) round_to(spec.number_type, out.subspan(i * spec.dim, spec.dim));
  }

  [[noreturn]] void fail_missing(const TableSpec& spec, KeysView keys) const {
    const size_t i = std::find(found_.begin(), found_.end(), 0) - found_.begin();
    fail(ErrorCode::kMissingKey, "table '{}' has no row for key '{}'", spec.name, to_string(keys, i));
  }

  const OwnerConfig config_;
  storage::ExternalStore* external_ = nullptr;  // store_, if it is one
  std::unique_ptr<storage::Store> store_;
  std::vector<AppliedNote> left_;
  std::vector<std::unique_ptr<const storage::Initializer>> initializers_;
  std::vector<std::unique_ptr<const storage::UpdateRule>> rules_;
  std::vector<std::unique_ptr<const storage::Constraint>> constraints_;  // null for none
  std::vector<std::vector<float>> slot_init_;
  std::vector<uint8_t> found_;  // scratch of lookup
  uint64_t version_ = 0;
  std::unordered_map<uint64_t, uint64_t> own_steps_;  // by sender
  // The latest numbers of the imports that were taken, by sender.
  std::unordered_map<uint64_t, std::set<uint64_t>> imports_;
  uint64_t left_out_ = 0;
};

using PullPromise = caf::typed_response_promise<Message<wire::PullReply>>;
using ScanPromise = caf::typed_response_promise<Message<wire::ScanReply>>;

// Of pulls from other processes that wait for a version to come. More are refused as stale: their workers
// have them leased again.
constexpr size_t kMostWaitingBytes = size_t{1} << 30;

struct ShardState {
  ShardState() = default;  // no aggregate: see actors/README.md
  std::unique_ptr<Rows> rows;
  uint64_t job = 0;
  uint32_t map_version = 0;
  bool sync = false;
  bool begun = false;  // rows have been changed by a push
  struct Waiting {
    Message<wire::PullRequest> request;
    PullPromise promise;
  };
  std::deque<Waiting> waiting;  // pulls of versions to come
  size_t waiting_bytes = 0;     // of those from other processes
  // Answers that are not made before their peers have read earlier ones: one that reads nothing would have
  // this process hoard rows for it.
  std::deque<std::function<void()>> held;
  std::function<void()> on_room;  // has this actor look at `held` again; any thread
  const std::shared_ptr<std::atomic<bool>> told_of_room = std::make_shared<std::atomic<bool>>(false);
  static inline const char* name = "shard";

  void check(const Origin& origin) const {
    if (origin.job != job)
      fail(ErrorCode::kMismatch, "a pull of job {:016x} reached an owner of job {:016x}", origin.job, job);
    check_map(origin.map_version, "a pull was");
  }
  void check_map(uint32_t routed_by, const char* what) const {
    if (routed_by != map_version)
      fail(ErrorCode::kStaleMap, "{} routed by owner map {}, but the map is now {}", what, routed_by,
           map_version);
  }

  bool must_wait(const Message<wire::PullRequest>& m) const {
    return sync && m.get().getOrigin().getVersion() > rows->version();
  }

  void wait(const Message<wire::PullRequest>& m, const PullPromise& promise) {
    if (m.arrival()) {
      const size_t bytes = m.words().bytes().size();
      if (waiting_bytes > 0 && waiting_bytes + bytes > kMostWaitingBytes)
        fail(ErrorCode::kStaleVersion, "pulls of {} MiB already wait for version {}, the owner is at {}",
             waiting_bytes >> 20, m.get().getOrigin().getVersion(), rows->version());
      waiting_bytes += bytes;
      m.arrival()->settle();  // the pushes that make the version may be behind it on the wire
    }
    waiting.push_back({m, promise});
  }

  // Whether an answer may be made now; if not, `answer` runs later.
  template <class T, class Answer>
  bool has_room(const Message<T>& m, Answer&& answer) {
    if (!m.arrival() || m.arrival()->has_room(on_room)) return true;
    held.emplace_back(std::forward<Answer>(answer));
    return false;
  }
  void answer_held() {
    *told_of_room = false;
    for (const auto& answer : std::exchange(held, {})) answer();
  }

  void answer(const Message<wire::PullRequest>& m, PullPromise& promise) {
    guarded(
        Kind::kPullRequest,
        [&] {
          if (!has_room(m, [this, m, promise]() mutable { answer(m, promise); })) return;
          const uint64_t wanted = m.get().getOrigin().getVersion();
          if (m.get().getMode() == wire::ReadMode::EXACT && wanted != rows->version())
            fail(ErrorCode::kStaleVersion, "version {} was asked for, but the owner is at {}", wanted,
                 rows->version());
          const WordsMemoryPtr memory = m.arrival() ? m.arrival()->memory() : nullptr;
          promise.deliver(rows->pull(m.get(), memory.get()));
        },
        [&](const Error& e) { promise.deliver(to_caf(e)); });
  }

  // Answers those waiting pulls whose version has come.
  void wake() {
    std::deque<Waiting> still;
    for (Waiting& w : waiting) {
      if (must_wait(w.request)) {
        still.push_back(std::move(w));
      } else {
        if (w.request.arrival()) waiting_bytes -= w.request.words().bytes().size();
        answer(w.request, w.promise);
      }
    }
    waiting = std::move(still);
  }

  void scan(const Message<wire::ScanRequest>& m, ScanPromise& promise) {
    if (!has_room(m, [this, m, promise]() mutable { scan(m, promise); })) return;
    guarded(
        Kind::kScanRequest, [&] { promise.deliver(rows->scan(m.get())); },
        [&](const Error& e) { promise.deliver(to_caf(e)); });
  }
};

// Runs in the actor's own thread. A CPU that was allowed when the process began may no longer be.
void bind_shard(const OwnerConfig& config) {
  try {
    bind_thread(*config.cpu);
  } catch (const Error& e) {
    spdlog::warn("shard {} goes on without being bound to a CPU: {}", config.number, e.what());
  }
}

LocalShardActor::behavior_type shard_behavior(LocalShardActor::stateful_pointer<ShardState> self,
                                              std::shared_ptr<std::unique_ptr<Rows>> rows,
                                              const OwnerConfig& config) {
  if (config.cpu) bind_shard(config);
  self->state.rows = std::move(*rows);
  self->state.job = config.job;
  self->state.map_version = config.map.version;
  self->state.sync = config.sync;
  self->state.on_room = [me = caf::weak_actor_ptr(self->ctrl()), told = self->state.told_of_room] {
    const auto shard = me.lock();
    if (shard && !told->exchange(true))
      caf::anon_send(caf::actor_cast<LocalShardActor>(shard), room_atom::value);
  };
  return {
      [self](const Message<wire::PullRequest>& m) -> caf::result<Message<wire::PullReply>> {
        auto promise = self->make_response_promise<Message<wire::PullReply>>();
        guarded(
            Kind::kPullRequest,
            [&] {
              self->state.check(read(m.get().getOrigin()));
              if (self->state.must_wait(m))
                self->state.wait(m, promise);
              else
                self->state.answer(m, promise);
            },
            [&](const Error& e) { promise.deliver(to_caf(e)); });
        return promise;
      },
      [self](const Message<wire::RestoreRequest>& m) {
        return guarded(Kind::kRestoreRequest, [&] {
          // Later it can only be what an old connection still held: it was asked again over a new one.
          if (!self->state.begun) self->state.rows->restore(m.get());
          return make_message<wire::Empty>();
        });
      },
      [self](const Message<wire::ImportRequest>& m) {
        return guarded(Kind::kImportRequest, [&] {
          self->state.check_map(m.get().getMapVersion(), "rows to be imported were");
          self->state.rows->import_rows(m.get());
          return make_message<wire::Empty>();
        });
      },
      [self](const Message<wire::ScanRequest>& m) -> caf::result<Message<wire::ScanReply>> {
        auto promise = self->make_response_promise<Message<wire::ScanReply>>();
        self->state.scan(m, promise);
        return promise;
      },
      [self](apply_atom, const ApplyPtr& batch) {
        return guarded(Kind::kPushRequest, [&] {
          self->state.begun = true;
          self->state.rows->apply(*batch);
          self->state.wake();
          return self->state.rows->version();
        });
      },
      [self](note_atom, const NotePtr& note) {
        return guarded(Kind::kResumeRequest, [&] {
          self->state.rows->note(*note);
          self->state.wake();
          return note->version;
        });
      },
      [self](map_atom, uint32_t version) {
        return self->state.map_version = std::max(self->state.map_version, version);
      },
      [self](stats_atom) { return self->state.rows->stats(); },
      [self](room_atom) { self->state.answer_held(); },
  };
}

}  // namespace

LocalShardActor spawn_shard(caf::actor_system& system, const OwnerConfig& config,
                            std::vector<AppliedNote>* left) {
  auto rows = std::make_shared<std::unique_ptr<Rows>>(std::make_unique<Rows>(config));
  if (left != nullptr) *left = (*rows)->left();
  if (config.backend == "memory" && !config.cpu) return system.spawn(shard_behavior, rows, config);
  return spawn_with_thread(system, shard_behavior, rows, config);
}

}  // namespace embers
