#include "schema/messages/codec.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/floats/copy_floats.h"

namespace embers {
namespace {

static_assert(std::endian::native == std::endian::little, "rows travel as little-endian floats");

constexpr size_t kLineWords = 8;

constexpr size_t words_of(size_t bytes) { return (bytes + 7) / 8; }

// Builds a message in its final buffer, after the segment table, which is one word. Only the first
// `structure` words are zeroed, as Cap'n Proto expects of memory for structs; blobs must come after all
// structs, be written in full, and go through padded().
class FlatBuilder {
 public:
  FlatBuilder(size_t structure, size_t blobs, WordsMemory* memory = nullptr)
      : words_(allocated(1 + structure + blobs, memory)) {
    std::memset(words_.data(), 0, (1 + structure) * 8);
  }

  template <class T>
  typename T::Builder init_root() {
    return message_.initRoot<T>();
  }

  // Once all structs are made: the next blob begins at a cache line, if the message does.
  void align_blob() {
    const size_t at = 1 + message_.getSegmentsForOutput()[0].size();
    if (at % kLineWords != 0)
      message_.getOrphanage().newOrphan<capnp::Data>((kLineWords - at % kLineWords) * sizeof(capnp::word));
  }

  template <class T>
  Message<T> finish() {
    const size_t size = message_.getSegmentsForOutput()[0].size();
    const uint32_t table[2] = {0, static_cast<uint32_t>(size)};
    std::memcpy(words_.data(), table, sizeof table);
    words_.shrink(1 + size);
    return Message<T>(std::move(words_));
  }

 private:
  // Checked before anything is allocated: a small request may ask for a huge reply.
  static Words allocated(size_t words, WordsMemory* memory) {
    if (words > kMaxMessageWords)
      fail(ErrorCode::kInvalid, "a message of {} MiB is too large: use a smaller batch_size", words >> 17);
    return memory != nullptr ? memory->words(words) : Words(words);
  }

  Words words_;
  capnp::FlatMessageBuilder message_{kj::arrayPtr(words_.data() + 1, words_.size() - 1)};
};

// Whether the floats of a message of so many words begin at cache lines, so that they can be written around
// the caches.
constexpr bool is_large(size_t blob_words) {
  return blob_words * sizeof(capnp::word) >= StoreChoice::kLeastBytes;
}

// Words for the structs of a message with `tables` entries, roots and origin included; a generous bound.
constexpr size_t structure_words(size_t tables) { return 48 + 10 * tables; }

bool same(KeysView a, KeysView b) {
  return a.kind == b.kind && std::ranges::equal(a.ints, b.ints) && std::ranges::equal(a.ends, b.ends) &&
         a.bytes == b.bytes;
}

// How the keys of one entry travel.
struct EntryKeys {
  KeyPacking packing;
  uint32_t keys_of = 0;  // as in wire::TableKeys

  bool is_packed() const { return packing.bytes_per_key < sizeof(int64_t); }
};

// The same for lists that are the same, and for few others.
uint64_t begin_of(KeysView keys) {
  const auto bytes =
      keys.kind == KeyKind::kInt64
          ? std::string_view(reinterpret_cast<const char*>(keys.ints.data()), keys.ints.size_bytes())
          : keys.bytes;
  return hash_key(bytes.substr(0, 64)) + keys.size();
}

std::vector<EntryKeys> entry_keys(std::span<const TableSlices> tables, KeysSent sent) {
  std::vector<EntryKeys> entries(tables.size());
  if (sent == KeysSent::kAsTheyAre) return entries;
  std::unordered_map<uint64_t, size_t> begun;  // the first entry with such keys
  begun.reserve(tables.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    if (tables[i].keys.empty()) continue;
    const size_t first = begun.emplace(begin_of(tables[i].keys), i).first->second;
    const bool is_known = first < i && same(tables[first].keys, tables[i].keys);  // of one feature
    if (is_known)
      entries[i].keys_of = static_cast<uint32_t>(first + 1);
    else
      entries[i].packing = KeyPacking::of(tables[i].keys.ints);
  }
  return entries;
}

size_t key_words(KeysView keys, const EntryKeys& as) {
  if (as.keys_of != 0) return 0;
  return words_of(keys.ints.size() * as.packing.bytes_per_key) + words_of(keys.ends.size_bytes()) +
         words_of(keys.bytes.size());
}

size_t blob_words(std::span<const TableSlices> tables, std::span<const EntryKeys> keys) {
  size_t words = 0;
  for (size_t i = 0; i < tables.size(); ++i)
    words += key_words(tables[i].keys, keys[i]) +
             words_of(tables[i].values.size() * bytes_of(tables[i].number_type));
  return words;
}

template <class T>
capnp::Data::Reader blob(std::span<const T> data) {
  return {reinterpret_cast<const kj::byte*>(data.data()), data.size_bytes()};
}

void write(wire::Origin::Builder out, const Origin& origin) {
  out.setJob(origin.job);
  out.setIncarnation(origin.incarnation);
  out.setEpoch(origin.epoch);
  out.setMinibatch(origin.minibatch);
  out.setAttempt(origin.attempt);
  out.setVersion(origin.version);
  out.setMapVersion(origin.map_version);
  out.setExamples(origin.examples);
  out.setStep(origin.step);
}

// A new blob of a FlatBuilder, with zeros up to the end of its last word: what the heap held there must not
// leave the process, and a message must have the same bytes whenever it is built.
capnp::Data::Builder padded(capnp::Data::Builder data) {
  std::memset(data.end(), 0, words_of(data.size()) * 8 - data.size());
  return data;
}

template <class T>
void write(capnp::Data::Builder out, std::span<const T> items) {
  std::memcpy(padded(out).begin(), items.data(), items.size_bytes());
}

// Only for a message's own buffer, where blobs begin at word boundaries.
uint16_t* halves_of(capnp::Data::Builder data) { return reinterpret_cast<uint16_t*>(data.begin()); }

void write(capnp::Data::Builder out, NumberType type, std::span<const float> values, StoreChoice* choice) {
  if (type == NumberType::kFloat32)
    copy_many_floats(reinterpret_cast<float*>(padded(out).begin()), values.data(), values.size(), choice);
  else
    to_halves(type, values, halves_of(padded(out)));
}

void write(wire::TableKeys::Builder entry, KeysView keys, const EntryKeys& as) {
  if (as.keys_of != 0) return entry.setKeysOf(as.keys_of);
  if (!keys.ints.empty() && as.is_packed()) {
    entry.setKeyBytes(static_cast<uint8_t>(as.packing.bytes_per_key));
    entry.setLeast(as.packing.least);
    auto packed = padded(entry.initPacked(keys.ints.size() * as.packing.bytes_per_key));
    pack(as.packing, keys.ints, reinterpret_cast<std::byte*>(packed.begin()));
    return;
  }
  if (!keys.ints.empty()) write(entry.initInts(keys.ints.size_bytes()), keys.ints);
  if (!keys.ends.empty()) write(entry.initEnds(keys.ends.size_bytes()), keys.ends);
  if (!keys.bytes.empty()) write(entry.initBytes(keys.bytes.size()), std::span(keys.bytes));
}

// `before_values` is called before those of each table.
template <class Before>
void write(capnp::List<wire::TableKeys>::Builder out, std::span<const TableSlices> tables,
           std::span<const EntryKeys> keys, StoreChoice* choice, const Before& before_values) {
  for (size_t i = 0; i < tables.size(); ++i) {
    const TableSlices& t = tables[i];
    wire::TableKeys::Builder entry = out[i];
    entry.setTable(t.table);
    entry.setCount(static_cast<uint32_t>(t.keys.size()));
    entry.setWidth(t.width);
    write(entry, t.keys, keys[i]);
    if (t.values.empty()) continue;
    entry.setNumberType(static_cast<uint8_t>(t.number_type));
    before_values();
    write(entry.initValues(t.values.size() * bytes_of(t.number_type)), t.number_type, t.values, choice);
  }
}

void write(capnp::List<wire::TableKeys>::Builder out, std::span<const TableSlices> tables,
           std::span<const EntryKeys> keys) {
  write(out, tables, keys, nullptr, [] {});
}

template <class T>
std::span<const T> numbers(capnp::Data::Reader data, std::string_view what) {
  if (data.size() % sizeof(T) != 0)
    fail(ErrorCode::kBadFrame, "{} bytes of {}: not a multiple of the size of one", data.size(), what);
  return {reinterpret_cast<const T*>(data.begin()), data.size() / sizeof(T)};
}

KeysView read_packed(wire::TableKeys::Reader entry, UnpackedKeys* unpacked) {
  const size_t count = entry.getCount();
  const KeyPacking packing{entry.getLeast(), entry.getKeyBytes()};
  const auto packed = as_bytes(entry.getPacked());
  if (unpacked == nullptr)
    fail(ErrorCode::kBadFrame, "keys of table {} came packed, but nobody unpacks them here",
         entry.getTable());
  if (packing.bytes_per_key < 1 || packing.bytes_per_key > sizeof(int64_t) ||
      packed.size() != count * packing.bytes_per_key || entry.getInts().size() > 0 ||
      entry.getEnds().size() > 0 || entry.getBytes().size() > 0)
    fail(ErrorCode::kBadFrame, "{} keys of {} bytes were announced for table {}, but {} bytes were found",
         count, packing.bytes_per_key, entry.getTable(), packed.size());
  auto& keys = unpacked->emplace_back(count);
  unpack(packing, packed.data(), keys);
  return {KeyKind::kInt64, keys, {}, {}};
}

KeysView read_keys(wire::TableKeys::Reader entry, UnpackedKeys* unpacked) {
  if (entry.getPacked().size() > 0) return read_packed(entry, unpacked);
  const size_t count = entry.getCount();
  const auto ints = numbers<int64_t>(entry.getInts(), "int64 keys");
  const auto ends = numbers<uint32_t>(entry.getEnds(), "key ends");
  const auto bytes = entry.getBytes();
  if (ints.size() == count && ends.empty() && bytes.size() == 0) return {KeyKind::kInt64, ints, {}, {}};
  if (ends.size() != count || !ints.empty())
    fail(ErrorCode::kBadFrame,
         "{} keys were announced for table {}, but {} int64 and {} bytes keys were found", count,
         entry.getTable(), ints.size(), ends.size());
  for (size_t i = 0, last = 0; i < count; last = ends[i++])
    if (ends[i] < last || ends[i] > bytes.size())
      fail(ErrorCode::kBadFrame, "key {} of table {} ends outside its bytes", i, entry.getTable());
  return {KeyKind::kBytes, {}, ends, {reinterpret_cast<const char*>(bytes.begin()), bytes.size()}};
}

}  // namespace

Origin read(wire::Origin::Reader o) {
  return {o.getJob(),     o.getIncarnation(), o.getEpoch(),    o.getMinibatch(), o.getAttempt(),
          o.getVersion(), o.getMapVersion(),  o.getExamples(), o.getStep()};
}

Message<wire::PullRequest> make_pull(const Origin& origin, wire::ReadMode mode, bool create,
                                     std::span<const TableSlices> tables, NumberType rows_as, KeysSent sent) {
  const auto keys = entry_keys(tables, sent);
  FlatBuilder builder(structure_words(tables.size()), blob_words(tables, keys));
  auto root = builder.init_root<wire::PullRequest>();
  root.setNumberType(static_cast<uint8_t>(rows_as));
  write(root.initOrigin(), origin);
  root.setMode(mode);
  root.setCreate(create);
  write(root.initTables(tables.size()), tables, keys);
  return builder.finish<wire::PullRequest>();
}

Message<wire::PullReply> make_pull_reply(uint64_t version, std::span<const RowsShape> shapes,
                                         const std::function<void(size_t, std::span<float>)>& fill,
                                         WordsMemory* memory, uint64_t own_step) {
  size_t blobs = 0;
  for (const RowsShape& s : shapes) blobs += words_of(s.keys * s.dim * bytes_of(s.number_type));
  const bool large = is_large(blobs);
  FlatBuilder builder(structure_words(shapes.size()), blobs + (large ? shapes.size() * kLineWords : 0),
                      memory);
  auto root = builder.init_root<wire::PullReply>();
  root.setVersion(version);
  root.setOwnStep(own_step);
  auto tables = root.initTables(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const size_t floats = shapes[i].keys * shapes[i].dim;
    tables[i].setTable(shapes[i].table);
    tables[i].setDim(shapes[i].dim);
    const NumberType type = shapes[i].number_type;
    tables[i].setNumberType(static_cast<uint8_t>(type));
    if (floats == 0) continue;
    if (large) builder.align_blob();
    auto rows = padded(tables[i].initRows(floats * bytes_of(type)));
    if (type == NumberType::kFloat32) {
      fill(i, {reinterpret_cast<float*>(rows.begin()), floats});
    } else {
      FloatBuffer room(floats);
      fill(i, room.span());
      to_halves(type, room.span(), halves_of(rows));
    }
  }
  return builder.finish<wire::PullReply>();
}

Message<wire::PushRequest> make_push(const Origin& origin, std::span<const TableSlices> tables,
                                     WordsMemory* memory, KeysSent sent) {
  const auto keys = entry_keys(tables, sent);
  const size_t blobs = blob_words(tables, keys);
  const bool large = memory != nullptr && is_large(blobs);
  FlatBuilder builder(structure_words(tables.size()), blobs + (large ? tables.size() * kLineWords : 0),
                      memory);
  auto root = builder.init_root<wire::PushRequest>();
  write(root.initOrigin(), origin);
  write(root.initTables(tables.size()), tables, keys, memory == nullptr ? nullptr : memory->store_choice(),
        [&] {
          if (large) builder.align_blob();
        });
  return builder.finish<wire::PushRequest>();
}

Message<wire::RestoreRequest> make_restore(std::span<const TableSlices> tables, bool only_absent) {
  const auto keys = entry_keys(tables, KeysSent::kAsTheyAre);
  FlatBuilder builder(structure_words(tables.size()), blob_words(tables, keys));
  auto root = builder.init_root<wire::RestoreRequest>();
  root.setOnlyAbsent(only_absent);
  write(root.initTables(tables.size()), tables, keys);
  return builder.finish<wire::RestoreRequest>();
}

Message<wire::ImportRequest> make_import(const ImportOrigin& origin, std::span<const TableSlices> tables) {
  const auto keys = entry_keys(tables, KeysSent::kAsTheyAre);
  FlatBuilder builder(structure_words(tables.size()), blob_words(tables, keys));
  auto root = builder.init_root<wire::ImportRequest>();
  root.setMapVersion(origin.map_version);
  root.setIncarnation(origin.incarnation);
  root.setNumber(origin.number);
  write(root.initTables(tables.size()), tables, keys);
  return builder.finish<wire::ImportRequest>();
}

Message<wire::ScanReply> make_scan_reply(uint64_t next, const TableSlices& rows) {
  const std::span<const TableSlices> table(&rows, 1);
  const auto keys = entry_keys(table, KeysSent::kAsTheyAre);
  FlatBuilder builder(structure_words(1), blob_words(table, keys));
  auto root = builder.init_root<wire::ScanReply>();
  root.setNext(next);
  write(root.initRows(1), table, keys);
  return builder.finish<wire::ScanReply>();
}

Message<wire::ErrorReply> make_error(ErrorCode code, std::string_view text) {
  return make_message<wire::ErrorReply>([&](wire::ErrorReply::Builder b) {
    b.setCode(static_cast<uint8_t>(code));
    b.setMessage(std::string(text));
  });
}

namespace {

template <class Spec>
void write_named(wire::Named::Builder out, const Spec& spec) {
  out.setName(spec.name);
  auto params = out.initParams(spec.params.size());
  unsigned i = 0;
  for (const auto& [name, value] : spec.params) {
    params[i].setName(name);
    params[i++].setValue(value);
  }
}

template <class Spec>
Spec read_named(wire::Named::Reader in) {
  Spec spec;
  spec.name = in.getName();
  for (const auto param : in.getParams()) spec.params[param.getName()] = param.getValue();
  return spec;
}

void write_doubles(capnp::List<double>::Builder out, std::span<const double> values) {
  for (unsigned i = 0; i < values.size(); ++i) out.set(i, values[i]);
}

void write_schedule(wire::Schedule::Builder out, const ScheduleSpec& schedule) {
  write_named(out.initKind(), schedule);
  write_doubles(out.initBoundaries(schedule.boundaries.size()), schedule.boundaries);
  write_doubles(out.initValues(schedule.values.size()), schedule.values);
}

ScheduleSpec read_schedule(wire::Schedule::Reader in) {
  auto schedule = read_named<ScheduleSpec>(in.getKind());
  for (const double x : in.getBoundaries()) schedule.boundaries.push_back(x);
  for (const double x : in.getValues()) schedule.values.push_back(x);
  return schedule;
}

}  // namespace

void write(wire::Table::Builder out, const TableSpec& table) {
  out.setName(table.name);
  out.setDim(table.dim);
  out.setKeyKind(static_cast<uint8_t>(table.key_kind));
  out.setInputDim(table.input_dim);
  write_named(out.initInitializer(), table.initializer);
  write_named(out.initOptimizer(), table.update_rule);
  write_schedule(out.initSchedule(), table.update_rule.schedule);
  write_named(out.initConstraint(), table.constraint);
  out.setAccumulation(static_cast<uint8_t>(table.accumulation));
  out.setNumberType(static_cast<uint8_t>(table.number_type));
  out.setRounding(static_cast<uint8_t>(table.rounding));
  out.setPartition(static_cast<uint8_t>(table.partition));
}

TableSpec read(wire::Table::Reader in) {
  if (in.getKeyKind() > 1 || in.getAccumulation() > 1 || in.getRounding() > 1 || in.getPartition() > 2 ||
      in.getDim() == 0)
    fail(ErrorCode::kBadFrame,
         "invalid table '{}': dim {}, key kind {}, accumulation {}, rounding {}, partition {}",
         in.getName().cStr(), in.getDim(), in.getKeyKind(), in.getAccumulation(), in.getRounding(),
         in.getPartition());
  TableSpec table;
  table.name = in.getName();
  table.dim = in.getDim();
  table.key_kind = static_cast<KeyKind>(in.getKeyKind());
  table.input_dim = in.getInputDim();
  table.initializer = read_named<InitializerSpec>(in.getInitializer());
  table.update_rule = read_named<UpdateRuleSpec>(in.getOptimizer());
  table.update_rule.schedule = read_schedule(in.getSchedule());
  table.constraint = read_named<ConstraintSpec>(in.getConstraint());
  table.accumulation = static_cast<Accumulation>(in.getAccumulation());
  table.number_type = number_type(in.getNumberType());
  table.rounding = static_cast<Rounding>(in.getRounding());
  table.partition = static_cast<Partition>(in.getPartition());
  return table;
}

namespace {

SentRows sent_rows(uint8_t type, capnp::Data::Reader data, std::string_view what) {
  SentRows rows{number_type(type), {}, {}};
  if (rows.number_type == NumberType::kFloat32)
    rows.floats = numbers<float>(data, what);
  else
    rows.halves = numbers<uint16_t>(data, what);
  return rows;
}

}  // namespace

TableSlices in_floats(const TableSlices& slices, FloatBuffer& room) {
  room = FloatBuffer(slices.halves.size());
  from_halves(slices.number_type, slices.halves.data(), room.span());
  TableSlices floats = slices;
  floats.values = room.span();
  floats.number_type = NumberType::kFloat32;
  floats.halves = {};
  return floats;
}

namespace {

KeysView keys_of_another(wire::TableKeys::Reader entry, capnp::List<wire::TableKeys>::Reader list,
                         std::span<const TableSlices> read_before) {
  const size_t other = entry.getKeysOf() - 1;
  if (other >= read_before.size() || list[static_cast<unsigned>(other)].getKeysOf() != 0 ||
      read_before[other].keys.size() != entry.getCount() || entry.getInts().size() > 0 ||
      entry.getEnds().size() > 0 || entry.getBytes().size() > 0 || entry.getPacked().size() > 0)
    fail(ErrorCode::kBadFrame,
         "{} keys of table {} are said to be those of entry {}, which does not have as many keys of its own",
         entry.getCount(), entry.getTable(), other);
  return read_before[other].keys;
}

}  // namespace

std::vector<TableSlices> read_slices(capnp::List<wire::TableKeys>::Reader list, size_t tables,
                                     bool takes_halves, UnpackedKeys* unpacked) {
  // At most one entry per table. This also bounds the memory that entries without any bytes take: a small
  // message may announce millions of them.
  if (list.size() > tables)
    fail(ErrorCode::kBadFrame, "keys of {} tables, but the model has {}", list.size(), tables);
  std::vector<TableSlices> out;
  out.reserve(list.size());
  for (const auto entry : list) {
    if (entry.getTable() >= tables)
      fail(ErrorCode::kBadFrame, "table number {}, but the model has {} tables", entry.getTable(), tables);
    TableSlices slices{entry.getTable(), {}, entry.getWidth(), {}};
    slices.keys = entry.getKeysOf() == 0 ? read_keys(entry, unpacked) : keys_of_another(entry, list, out);
    const SentRows values = sent_rows(entry.getNumberType(), entry.getValues(), "values");
    slices.values = values.floats;
    slices.number_type = values.number_type;
    slices.halves = values.halves;
    if (!values.halves.empty() && !takes_halves)
      fail(ErrorCode::kBadFrame, "values of table {} came as {}, but float32 was expected", slices.table,
           name(slices.number_type));
    const size_t count = values.floats.size() + values.halves.size();
    if (count != slices.keys.size() * slices.width)
      fail(ErrorCode::kBadFrame, "{} values for {} keys of width {} of table {}", count, slices.keys.size(),
           slices.width, slices.table);
    out.push_back(slices);
  }
  return out;
}

std::span<const float> read_rows(wire::PullReply::Reader reply, size_t i, const RowsShape& expected) {
  const SentRows rows = read_sent_rows(reply, i, expected);
  if (rows.number_type != NumberType::kFloat32)
    fail(ErrorCode::kBadFrame, "rows of table {} came as {}, but float32 was asked for", expected.table,
         name(rows.number_type));
  return rows.floats;
}

SentRows read_sent_rows(wire::PullReply::Reader reply, size_t i, const RowsShape& expected) {
  const auto tables = reply.getTables();
  if (i >= tables.size())
    fail(ErrorCode::kBadFrame, "a pull's reply has {} tables, but {} were expected", tables.size(), i + 1);
  const auto entry = tables[i];
  const SentRows rows = sent_rows(entry.getNumberType(), entry.getRows(), "rows");
  const size_t count = rows.floats.size() + rows.halves.size();
  if (entry.getTable() != expected.table || entry.getDim() != expected.dim ||
      count != expected.keys * expected.dim)
    fail(ErrorCode::kBadFrame,
         "a pull's reply has {} numbers of dim {} for table {}, but {} rows of dim {} of table {} were "
         "expected",
         count, entry.getDim(), entry.getTable(), expected.keys, expected.dim, expected.table);
  return rows;
}

OwnerMap read_owner_map(wire::JoinReply::Reader reply, size_t owners) {
  const auto buckets = reply.getOwnerOfBucket();
  if (buckets.size() == 0) fail(ErrorCode::kBadFrame, "the owner map is empty");
  OwnerMap map{reply.getMapVersion(), {}};
  for (const uint16_t owner : buckets) {
    if (owner >= owners)
      fail(ErrorCode::kBadFrame, "the owner map names shard {} of {} shards", owner, owners);
    map.owner_of_bucket.push_back(owner);
  }
  return map;
}

std::vector<std::string> read_texts(capnp::List<capnp::Text>::Reader texts) {
  std::vector<std::string> out;
  for (const auto text : texts) out.emplace_back(text.begin(), text.size());
  return out;
}

void write_texts(capnp::List<capnp::Text>::Builder out, std::span<const std::string> texts) {
  for (unsigned i = 0; i < texts.size(); ++i) out.set(i, texts[i]);
}

std::span<const float> read_floats(capnp::Data::Reader data) { return numbers<float>(data, "floats"); }
std::span<const uint64_t> read_words(capnp::Data::Reader data) { return numbers<uint64_t>(data, "numbers"); }
capnp::Data::Reader as_data(std::span<const float> floats) { return blob(floats); }
capnp::Data::Reader as_data(std::span<const uint64_t> numbers) { return blob(numbers); }
capnp::Data::Reader as_data(std::span<const std::byte> bytes) { return blob(bytes); }

std::span<const std::byte> as_bytes(capnp::Data::Reader data) {
  return {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
}

}  // namespace embers
