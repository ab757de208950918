#include "master/snapshot.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "actors/ask.h"
#include "actors/routing/route.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/checkpoint/column_join.h"
#include "storage/update_rules/update_rule.h"

namespace embers {
namespace {

constexpr uint32_t kScanRows = 1 << 16;
constexpr size_t kRestoreRows = 8192;

using Visitor = std::function<void(uint32_t owner, const TableSlices& rows)>;

uint32_t owners_of(const SnapshotContext& context) { return static_cast<uint32_t>(context.owners.size()); }

bool is_split(const SnapshotContext& context, TableId table) {
  return embers::is_split(context.model.tables[table], context.owners.size());
}

ColumnRange columns_of(const SnapshotContext& context, TableId table, uint32_t owner) {
  return embers::columns_of(context.model.tables[table].dim, owner, owners_of(context));
}

// Visits every row of a table at every owner, or the columns that this owner has.
void scan(caf::blocking_actor* self, const SnapshotContext& context, TableId table, bool slots,
          const Visitor& visit) {
  for (uint32_t number = 0; number < owners_of(context); ++number) {
    if (is_split(context, table) && columns_of(context, table, number).empty()) return;
    const OwnerHandles& owner = context.owners[number];
    for (uint64_t cursor = 0; cursor != UINT64_MAX;) {
      const auto reply =
          ask(self, owner.shard, make_message<wire::ScanRequest>([&](wire::ScanRequest::Builder b) {
                b.setTable(table);
                b.setCursor(cursor);
                b.setLimit(kScanRows);
                b.setSlots(slots);
              }));
      decoding(Kind::kScanReply, [&] {
        for (const TableSlices& rows : read_slices(reply.get().getRows(), context.model.tables.size()))
          if (!rows.keys.empty()) visit(number, rows);
        cursor = reply.get().getNext();
      });
    }
  }
}

// Sends rows to the owners of their buckets.
void restore(caf::blocking_actor* self, const SnapshotContext& context, const TableSlices& rows,
             bool only_absent) {
  const TableKeyList list{rows.table, rows.keys};
  const uint32_t dim = context.model.tables[rows.table].dim;
  const Routed routed = route({&list, 1}, context.model.tables, context.map, context.owners.size());
  for (size_t owner = 0; owner < routed.size(); ++owner) {
    for (const RoutedTable& part : routed[owner]) {
      const bool whole = part.columns.size() == dim;
      const uint32_t width = whole ? rows.width : rows.width / dim * part.columns.size();
      std::vector<float> values(part.keys.size() * width);
      if (whole)
        collect(rows.values, width, part.positions, values);
      else
        collect_columns(rows.values, dim, part.columns, part.positions, values, rows.width / dim);
      const TableSlices slices{part.table, part.keys, width, values};
      ask(self, context.owners[owner].shard, make_restore({&slices, 1}, only_absent));
    }
  }
}

// The first `dim` of each row's `width` floats, in `room`.
std::span<const float> without_slots(std::span<const float> values, uint32_t width, uint32_t dim,
                                     FloatBuffer& room) {
  const size_t rows = values.size() / width;
  room = FloatBuffer(rows * dim);
  for (size_t row = 0; row < rows; ++row)
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(row * width), dim, room.data() + row * dim);
  return room.span();
}

nlohmann::json to_json(const Cursor& c) {
  nlohmann::json partial = nlohmann::json::array();
  for (const Partial& p : c.partial) partial.push_back({{"minibatch", p.minibatch}, {"owners", p.owners}});
  return {{"epoch", c.epoch},     {"next", c.next},         {"again", c.again},
          {"version", c.version}, {"examples", c.examples}, {"minibatches", c.minibatches},
          {"partial", partial},   {"shards", c.shards},     {"mode", c.sync ? "sync" : "async"},
          {"data", c.data}};
}

Cursor cursor_from_json(const nlohmann::json& json, const std::string& directory) {
  try {
    Cursor c;
    json.at("epoch").get_to(c.epoch);
    json.at("next").get_to(c.next);
    json.at("again").get_to(c.again);
    json.at("version").get_to(c.version);
    json.at("examples").get_to(c.examples);
    json.at("minibatches").get_to(c.minibatches);
    for (const auto& p : json.at("partial"))
      c.partial.push_back({p.at("minibatch").get<uint64_t>(), p.at("owners").get<std::vector<uint32_t>>()});
    json.at("shards").get_to(c.shards);
    c.sync = json.at("mode") == "sync";
    json.at("data").get_to(c.data);
    return c;
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kCorrupt, "{}/manifest.json: the cursor cannot be read back: {}", directory, e.what());
  }
}

// "adam [m, v]": hyper-parameters may change between runs, slots may not.
std::string optimizer_with_slots(const TableSpec& table) {
  std::vector<std::string> names;
  const auto optimizer = storage::UpdateRule::make(table.update_rule);
  for (const auto& slot : optimizer->slots()) names.push_back(slot.name);
  return fmt::format("{} [{}]", table.update_rule.name, fmt::join(names, ", "));
}

void check_same_model(const ModelSpec& saved, const ModelSpec& now, const std::string& directory,
                      bool slots) {
  const auto saved_lines = signature(saved);
  const auto lines = signature(now);
  for (size_t i = 0; i < std::max(saved_lines.size(), lines.size()); ++i) {
    const std::string was = i < saved_lines.size() ? saved_lines[i] : "nothing more";
    const std::string is = i < lines.size() ? lines[i] : "nothing more";
    if (was != is)
      fail(ErrorCode::kMismatch, "{} was saved by another model: {} there, {} in this job", directory, was,
           is);
  }
  for (size_t t = 0; slots && t < now.tables.size(); ++t) {
    const std::string was = optimizer_with_slots(saved.tables[t]), is = optimizer_with_slots(now.tables[t]);
    if (was != is)
      fail(ErrorCode::kMismatch, "{}: table '{}' was saved with the slots of optimizer {}, this job uses {}",
           directory, now.tables[t].name, was, is);
  }
}

// What has reached some owners has reached some rows, or some columns.
void check_same_partition(const Cursor& cursor, const ModelSpec& saved, const ModelSpec& now,
                          const std::string& directory) {
  if (cursor.partial.empty()) return;
  for (size_t t = 0; t < now.tables.size(); ++t)
    if (const auto [was, is] = std::pair(saved.tables[t].partition, now.tables[t].partition); was != is)
      fail(ErrorCode::kMismatch,
           "{} was saved when minibatch {} had reached some shards but not all, with partition {} of table "
           "'{}'; this job has {}: resume with the same partition",
           directory, cursor.partial.front().minibatch, name(was), now.tables[t].name, name(is));
}

}  // namespace

void save_checkpoint(caf::blocking_actor* self, const SnapshotContext& context, const std::string& directory,
                     const std::string& job, const Cursor& cursor) {
  const auto writer = storage::CheckpointWriter::make(directory, *context.disk);
  for (TableId t = 0; t < context.model.tables.size(); ++t)
    scan(self, context, t, true, [&](uint32_t owner, const TableSlices& rows) {
      if (is_split(context, t))
        writer->add_columns(t, columns_of(context, t, owner), rows.keys, rows.values);
      else
        writer->add(t, rows.keys, rows.values);
    });
  writer->finish(context.model, {{"job", job}, {"cursor", to_json(cursor)}});
}

Cursor load_checkpoint(caf::blocking_actor* self, const SnapshotContext& context,
                       const std::string& directory, bool slots) {
  const auto reader = storage::CheckpointReader::open(directory, *context.disk);
  check_same_model(reader->model(), context.model, directory, slots);
  FloatBuffer bare;
  for (TableId t = 0; t < context.model.tables.size(); ++t)
    reader->read(t, kRestoreRows, [&](KeysView keys, std::span<const float> values) {
      if (keys.empty()) return;
      const auto width = static_cast<uint32_t>(values.size() / keys.size());
      const uint32_t dim = context.model.tables[t].dim;
      if (slots || width == dim) return restore(self, context, {t, keys, width, values}, false);
      restore(self, context, {t, keys, dim, without_slots(values, width, dim, bare)}, false);
    });
  Cursor cursor = cursor_from_json(reader->manifest().value("cursor", nlohmann::json::object()), directory);
  if (slots) check_same_partition(cursor, reader->model(), context.model, directory);
  return cursor;
}

void init_dense(caf::blocking_actor* self, const SnapshotContext& context, const FloatBuffer& dense,
                const FloatBuffer& buffers) {
  for (const bool buffer : {false, true}) {
    Keys keys(KeyKind::kBytes);
    for (const DenseChunk& chunk : dense_chunks(context.model, buffer)) keys.push_back(chunk.key);
    if (keys.empty()) continue;
    const TableId table = context.model.table_id(buffer ? kBufferTable : kDenseTable);
    restore(self, context, {table, keys, kDenseChunk, (buffer ? buffers : dense).span()}, true);
  }
}

void check_same_epoch(const Cursor& saved, const Cursor& now, const std::string& directory) {
  if (saved.next == 0) return;
  const std::string when = fmt::format("{} was saved in the middle of epoch {}", directory, saved.epoch);
  if (saved.data != now.data) {
    const auto [was, is] =
        std::mismatch(saved.data.begin(), saved.data.end(), now.data.begin(), now.data.end());
    fail(ErrorCode::kMismatch, "{}, with {}; this job has {}: resume with the same settings and data", when,
         was == saved.data.end() ? "nothing more" : *was, is == now.data.end() ? "nothing more" : *is);
  }
  if (now.sync && !saved.again.empty())
    fail(ErrorCode::kMismatch,
         "{}, in async mode and with minibatches missing in the middle, which sync mode cannot put in order: "
         "go on in async mode until the epoch ends",
         when);
  if (!saved.partial.empty() && saved.shards != now.shards)
    fail(ErrorCode::kMismatch,
         "{}, when minibatch {} had reached some of {} shards but not all; this job has {}: resume with "
         "the same number of shards",
         when, saved.partial.front().minibatch, saved.shards, now.shards);
}

void resume_owners(caf::blocking_actor* self, const SnapshotContext& context, const Cursor& cursor) {
  const std::set<uint64_t> again(cursor.again.begin(), cursor.again.end());
  std::vector<uint64_t> applied;
  for (uint64_t m = 0; m < cursor.next; ++m)
    if (!again.contains(m)) applied.push_back(m);
  for (size_t owner = 0; owner < context.owners.size(); ++owner) {
    std::vector<uint64_t> here = applied;
    for (const Partial& p : cursor.partial)
      if (std::find(p.owners.begin(), p.owners.end(), owner) != p.owners.end()) here.push_back(p.minibatch);
    ask(self, context.owners[owner].optimizer,
        make_message<wire::ResumeRequest>([&](wire::ResumeRequest::Builder b) {
          b.setEpoch(cursor.epoch);
          b.setVersion(cursor.version);
          b.setExamples(cursor.examples);
          b.setMinibatches(cursor.minibatches);
          auto list = b.initApplied(here.size());
          for (unsigned i = 0; i < here.size(); ++i) list.set(i, here[i]);
        }));
  }
}

void dump_rows(caf::blocking_actor* self, const SnapshotContext& context, const std::string& file) {
  const auto dump = storage::RowDump::make(file, context.model);
  for (TableId t = 0; t < context.model.tables.size(); ++t) {
    const TableSpec& table = context.model.tables[t];
    storage::ColumnJoin join(table.key_kind, table.dim, 1);
    scan(self, context, t, false, [&](uint32_t owner, const TableSlices& rows) {
      if (is_split(context, t))
        join.add(columns_of(context, t, owner), rows.keys, rows.values);
      else
        dump->add(t, rows.keys, rows.values);
    });
    join.visit(kRestoreRows,
               [&](KeysView keys, std::span<const float> values) { dump->add(t, keys, values); });
  }
  dump->finish();
}

}  // namespace embers
