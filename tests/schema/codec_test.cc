// Messages: what is written is read back; what is malformed is kBadFrame.
#include "schema/messages/codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "schema/messages/received.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

constexpr size_t kTables = 4;

Origin some_origin() { return {1, 2, 3, 4, 5, 7, 8, 9}; }

struct Sample {
  Keys ints{std::vector<int64_t>{-1, 5, INT64_MAX}};
  Keys strings{std::vector<std::string>{"", "ab", "c"}};
  std::vector<float> values{1, 2, 3, 4, 5, 6}, more{0.5f, -1, 1e30f};
  std::vector<TableSlices> with_values{{1, ints, 2, values}, {3, strings, 1, more}};
  std::vector<TableSlices> keys_only{{1, ints, 0, {}}, {3, strings, 0, {}}};
};

void expect_same(const TableSlices& a, const TableSlices& b) {
  EXPECT_EQ(a.table, b.table);
  EXPECT_EQ(Keys(a.keys), Keys(b.keys));
  EXPECT_EQ(a.width, b.width);
  EXPECT_TRUE(std::ranges::equal(a.values, b.values));
}

TEST(Codec, PullsReadBack) {
  const Sample sample;
  const auto m = make_pull(some_origin(), wire::ReadMode::EXACT, true, sample.keys_only);
  EXPECT_EQ(m.get().getMode(), wire::ReadMode::EXACT);
  EXPECT_TRUE(m.get().getCreate());
  const Origin o = read(m.get().getOrigin());
  EXPECT_EQ(o.job, 1);
  EXPECT_EQ(o.incarnation, 2);
  EXPECT_EQ(o.epoch, 3);
  EXPECT_EQ(o.minibatch, 4);
  EXPECT_EQ(o.attempt, 5);
  EXPECT_EQ(o.version, 7);
  EXPECT_EQ(o.map_version, 8);
  EXPECT_EQ(o.examples, 9);
  const auto tables = read_slices(m.get().getTables(), kTables);
  ASSERT_EQ(tables.size(), 2);
  expect_same(tables[0], sample.keys_only[0]);
  expect_same(tables[1], sample.keys_only[1]);
}

TEST(Codec, PushesRestoresAndScansReadBack) {
  const Sample sample;
  const auto push = make_push(some_origin(), sample.with_values);
  const auto restore = make_restore(sample.with_values, true);
  const auto scan = make_scan_reply(77, sample.with_values[1]);
  EXPECT_TRUE(restore.get().getOnlyAbsent());
  EXPECT_EQ(scan.get().getNext(), 77);
  for (const auto list : {push.get().getTables(), restore.get().getTables()}) {
    const auto tables = read_slices(list, kTables);
    ASSERT_EQ(tables.size(), 2);
    expect_same(tables[0], sample.with_values[0]);
    expect_same(tables[1], sample.with_values[1]);
  }
  expect_same(read_slices(scan.get().getRows(), kTables)[0], sample.with_values[1]);
}

TEST(Codec, RowsReadBackInPlace) {
  const std::vector<RowsShape> shapes{{2, 3, 2}, {0, 5, 0}, {1, 1, 1}};
  const auto m = make_pull_reply(9, shapes, [](size_t i, std::span<float> rows) {
    std::fill(rows.begin(), rows.end(), static_cast<float>(i) + 0.5f);
  });
  EXPECT_EQ(m.get().getVersion(), 9);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto rows = read_rows(m.get(), i, shapes[i]);
    EXPECT_EQ(rows.size(), shapes[i].keys * shapes[i].dim);
    for (const float x : rows) EXPECT_EQ(x, static_cast<float>(i) + 0.5f);
  }
}

TEST(Codec, HalvesReadBackAndCostHalfTheBytes) {
  const Sample sample;
  for (const NumberType type : {NumberType::kFloat16, NumberType::kBfloat16}) {
    std::vector<float> values(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i) - 3;
    std::vector<float> rounded = values;
    round_to(type, rounded);
    const Keys keys(std::vector<int64_t>{4, 5});
    TableSlices slices{1, keys, 500, values};
    const size_t whole = make_push(some_origin(), {&slices, 1}).words().size();
    slices.number_type = type;
    const auto push = make_push(some_origin(), {&slices, 1});
    EXPECT_EQ(whole - push.words().size(), 250u);
    const auto read_back = read_slices(push.get().getTables(), kTables, true);
    ASSERT_EQ(read_back.size(), 1);
    FloatBuffer room;
    EXPECT_TRUE(std::ranges::equal(in_floats(read_back[0], room).values, rounded));
    expect_error(ErrorCode::kBadFrame, {"table 1", "float32"},
                 [&] { read_slices(push.get().getTables(), kTables); });

    const RowsShape shape{1, 500, 2, type};
    const auto reply = make_pull_reply(
        9, {&shape, 1}, [&](size_t, std::span<float> out) { std::ranges::copy(values, out.begin()); });
    const SentRows rows = read_sent_rows(reply.get(), 0, shape);
    ASSERT_EQ(rows.halves.size(), values.size());
    std::vector<float> floats(values.size());
    from_halves(rows.number_type, rows.halves.data(), floats);
    EXPECT_EQ(floats, rounded);
    expect_error(ErrorCode::kBadFrame, {"float32 was asked for"}, [&] { read_rows(reply.get(), 0, shape); });
  }
}

template <class T>
void expect_checked_as_received(const Message<T>& message) {
  Words copy(message.words().size());
  std::memcpy(copy.data(), message.words().data(), message.words().bytes().size());
  EXPECT_NO_THROW(received<T>(std::move(copy)));
}

// What another process reads may be written around the caches, a line at a time. Its memory begins at a line,
// and is dirty.
class AlignedMemory final : public WordsMemory {
 public:
  Words words(size_t words) override {
    auto buffer = std::make_shared<FloatBuffer>(2 * words);
    std::memset(buffer->data(), pattern, words * sizeof(capnp::word));
    auto* const data = reinterpret_cast<capnp::word*>(buffer->data());
    return {data, words, std::move(buffer)};
  }
  StoreChoice* store_choice() override { return &choice_; }
  int pattern = 0xAA;

 private:
  StoreChoice choice_;
};

std::vector<std::byte> bytes_of(const Words& words) { return {words.bytes().begin(), words.bytes().end()}; }

TEST(Codec, FloatsOfLargeMessagesBeginAtCacheLines) {
  const auto line = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 64; };
  AlignedMemory memory;
  const size_t n = 4099;
  std::vector<int64_t> numbers(n), others(n);
  std::vector<std::string> texts(n);
  std::iota(numbers.begin(), numbers.end(), -7);
  std::iota(others.begin(), others.end(), int64_t{1} << 40);
  for (size_t i = 0; i < n; ++i) texts[i] = std::string(i % 5, 'x') + std::to_string(i);
  const Keys words(texts);
  const KeysView ints{KeyKind::kInt64, numbers, {}, {}}, wide{KeyKind::kInt64, others, {}, {}};
  std::vector<float> values(n * 32);
  std::iota(values.begin(), values.end(), 1.0f);
  struct Table {
    KeysView keys;
    uint32_t dim;
    NumberType type = NumberType::kFloat32;
  };
  const std::vector<Table> kinds{
      {ints, 1},  {ints, 16}, {KeysView{KeyKind::kInt64, {}, {}, {}}, 8}, {wide, 3, NumberType::kFloat16},
      {words, 4}, {ints, 32}, {wide, 5, NumberType::kBfloat16},           {words, 7}};
  for (const size_t count : {1, 3, 20})
    for (const KeysSent sent : {KeysSent::kAsTheyAre, KeysSent::kPacked}) {
      std::vector<RowsShape> shapes;
      std::vector<TableSlices> tables;
      for (size_t t = 0; t < count; ++t) {
        const Table& kind = kinds[(t + 1) % kinds.size()];
        const auto id = static_cast<TableId>(t);
        shapes.push_back({id, kind.dim, kind.keys.size(), kind.type});
        tables.push_back(
            {id, kind.keys, kind.dim, std::span(values).first(kind.keys.size() * kind.dim), kind.type});
      }
      const auto fill = [&](size_t, std::span<float> out) {
        std::ranges::copy(std::span(values).first(out.size()), out.begin());
      };
      for (int again = 0; again < 12; ++again) {  // pushes go around the caches now and then
        memory.pattern = again % 2 == 0 ? 0xAA : 0x55;
        const auto reply = make_pull_reply(9, shapes, fill, &memory);
        const auto push = make_push(some_origin(), tables, &memory, sent);
        UnpackedKeys unpacked;
        const auto slices = read_slices(push.get().getTables(), count, true, &unpacked);
        ASSERT_EQ(slices.size(), count);
        for (size_t t = 0; t < count; ++t) {
          EXPECT_EQ(Keys(slices[t].keys), Keys(tables[t].keys));
          if (tables[t].values.empty()) continue;
          if (tables[t].number_type != NumberType::kFloat32) {
            EXPECT_EQ(line(slices[t].halves.data()), 0u);
            continue;
          }
          const auto rows = read_rows(reply.get(), t, shapes[t]);
          EXPECT_EQ(line(rows.data()), 0u);
          EXPECT_TRUE(std::ranges::equal(rows, tables[t].values));
          EXPECT_EQ(line(slices[t].values.data()), 0u);
          EXPECT_TRUE(std::ranges::equal(slices[t].values, tables[t].values));
        }
        expect_checked_as_received(reply);
        expect_checked_as_received(push);
        memory.pattern ^= 0xFF;
        EXPECT_EQ(bytes_of(reply.words()), bytes_of(make_pull_reply(9, shapes, fill, &memory).words()));
        EXPECT_EQ(bytes_of(push.words()), bytes_of(make_push(some_origin(), tables, &memory, sent).words()));
      }
    }
}

TEST(Codec, ATypeOfNumbersThatIsNoneIsRefused) {
  const auto m = make_message<wire::PushRequest>([](wire::PushRequest::Builder b) {
    auto entry = b.initTables(1)[0];
    entry.setWidth(1);
    entry.setNumberType(3);
  });
  expect_error(ErrorCode::kBadFrame, {"number type 3"},
               [&] { read_slices(m.get().getTables(), kTables, true); });
}

TEST(Codec, RowsOtherThanExpectedAreRefused) {
  const RowsShape shape{2, 3, 2};
  const auto m = make_pull_reply(9, {&shape, 1}, [](size_t, std::span<float> rows) { rows[0] = 1; });
  for (const RowsShape& other : {RowsShape{1, 3, 2}, RowsShape{2, 2, 3}, RowsShape{2, 3, 3}})
    expect_error(ErrorCode::kBadFrame, {"table 2"}, [&] { read_rows(m.get(), 0, other); });
  expect_error(ErrorCode::kBadFrame, {"2 were expected"}, [&] { read_rows(m.get(), 1, shape); });
}

TEST(Codec, TheScheduleOfATablesOptimizerReadsBackWhole) {
  TableSpec table;
  table.name = "t";
  table.dim = 1;
  table.number_type = NumberType::kBfloat16;
  table.rounding = Rounding::kStochastic;
  table.partition = Partition::kEncoding;
  table.update_rule.schedule = {"piecewise", {{"alpha", 0.5}}, {1, 2}, {0.1, 1.0 / 3, 0}};
  const auto m =
      make_message<wire::JoinReply>([&](wire::JoinReply::Builder b) { write(b.initTables(1)[0], table); });
  EXPECT_EQ(read(m.get().getTables()[0]), table);
}

TEST(Codec, TablesReadBackWhole) {
  TableSpec table{"education",
                  8,
                  KeyKind::kBytes,
                  1000,
                  {"normal", {{"mean", 0.5}, {"stddev", 2}}},
                  {"adam", {{"beta_1", 0.8}}},
                  {"max_norm", {{"max_value", 3}}},
                  Accumulation::kLast};
  const auto m =
      make_message<wire::JoinReply>([&](wire::JoinReply::Builder b) { write(b.initTables(1)[0], table); });
  EXPECT_EQ(read(m.get().getTables()[0]), table);
  const auto bad = make_message<wire::JoinReply>([&](wire::JoinReply::Builder b) {
    auto list = b.initTables(2);
    list[1].setDim(3);
    list[1].setKeyKind(2);
  });
  expect_error(ErrorCode::kBadFrame, {"dim 0"}, [&] { read(bad.get().getTables()[0]); });
  expect_error(ErrorCode::kBadFrame, {"key kind 2"}, [&] { read(bad.get().getTables()[1]); });
}

TEST(Codec, ShardMapsNameOnlyShardsThatExist) {
  const auto m = make_message<wire::JoinReply>([](wire::JoinReply::Builder b) {
    b.setMapVersion(3);
    b.initOwnerOfBucket(2).set(1, 1);
  });
  EXPECT_EQ(read_owner_map(m.get(), 2).owner_of_bucket, (std::vector<uint16_t>{0, 1}));
  EXPECT_EQ(read_owner_map(m.get(), 2).version, 3);
  expect_error(ErrorCode::kBadFrame, {"shard 1"}, [&] { read_owner_map(m.get(), 1); });
  expect_error(ErrorCode::kBadFrame, {"empty"},
               [] { read_owner_map(make_message<wire::JoinReply>().get(), 1); });
}

TEST(Codec, TextsAndNumbersReadBack) {
  const std::vector<std::string> texts{"", "a=b", "\xc3\xa4"};
  const std::vector<float> floats{1, -2};
  const std::vector<uint64_t> numbers{UINT64_MAX, 0};
  const auto join = make_message<wire::JoinRequest>(
      [&](wire::JoinRequest::Builder b) { write_texts(b.initModel(3), texts); });
  EXPECT_EQ(read_texts(join.get().getModel()), texts);
  const auto done = make_message<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
    b.setScores(as_data(floats));
    b.setRecords(as_data(numbers));
    b.setLabels(kj::heapArray<kj::byte>(3));
  });
  EXPECT_TRUE(std::ranges::equal(read_floats(done.get().getScores()), floats));
  EXPECT_TRUE(std::ranges::equal(read_words(done.get().getRecords()), numbers));
  expect_error(ErrorCode::kBadFrame, {"3 bytes"}, [&] { read_floats(done.get().getLabels()); });
}

TEST(Codec, ErrorsReadBack) {
  const auto m = make_error(ErrorCode::kStaleMap, "map 3, now 4");
  EXPECT_EQ(error_code(m.get().getCode()), ErrorCode::kStaleMap);
  EXPECT_STREQ(m.get().getMessage().cStr(), "map 3, now 4");
}

// --- hostile contents ----------------------------------------------------------------------------

template <class Fill>
void expect_bad_keys(const std::string& part, Fill&& fill) {
  const auto m =
      make_message<wire::PushRequest>([&](wire::PushRequest::Builder b) { fill(b.initTables(1)[0]); });
  expect_error(ErrorCode::kBadFrame, {part}, [&] { read_slices(m.get().getTables(), kTables); });
}

capnp::Data::Reader ends(const std::vector<uint32_t>& numbers) {
  return {reinterpret_cast<const kj::byte*>(numbers.data()), numbers.size() * 4};
}

TEST(HostileKeys, AreRefused) {
  using Entry = wire::TableKeys::Builder;
  const std::vector<uint32_t> descending{2, 1}, beyond{1, 9};
  const kj::byte bytes[4] = {};
  expect_bad_keys("table number 4", [](Entry e) { e.setTable(4); });
  expect_bad_keys("2 keys were announced", [](Entry e) { e.setCount(2); });
  expect_bad_keys("4294967295 keys were announced", [](Entry e) { e.setCount(UINT32_MAX), e.initInts(8); });
  expect_bad_keys("not a multiple", [](Entry e) { e.setCount(1), e.initInts(7); });
  expect_bad_keys("ends outside", [&](Entry e) {
    e.setCount(2), e.setEnds(ends(descending)), e.setBytes({bytes, 4});
  });
  expect_bad_keys("ends outside", [&](Entry e) {
    e.setCount(2), e.setEnds(ends(beyond)), e.setBytes({bytes, 4});
  });
  expect_bad_keys("keys were announced", [&](Entry e) { e.setCount(1), e.initInts(8), e.initEnds(4); });
  expect_bad_keys("values for 1 keys of width 4294967295",
                  [](Entry e) { e.setCount(1), e.initInts(8), e.setWidth(UINT32_MAX), e.initValues(4); });
}

TEST(HostileKeys, OfMoreTablesThanThereAreAreRefused) {
  const auto m = make_message<wire::PushRequest>([&](wire::PushRequest::Builder b) { b.initTables(5); });
  expect_error(ErrorCode::kBadFrame, {"5 tables"}, [&] { read_slices(m.get().getTables(), kTables); });
}

// --- mutations: whatever arrives, reading it ends in values or kBadFrame -------------------------

// Reads everything that a program of embers reads of a message of this type.
uint64_t read_all(wire::PullRequest::Reader m) {
  UnpackedKeys unpacked;
  return read(m.getOrigin()).job + read_slices(m.getTables(), kTables, false, &unpacked).size() +
         static_cast<uint64_t>(m.getMode());
}
uint64_t read_all(wire::PushRequest::Reader m) {
  uint64_t sum = read(m.getOrigin()).version;
  UnpackedKeys unpacked;
  for (const TableSlices& t : read_slices(m.getTables(), kTables, false, &unpacked)) {
    for (size_t i = 0; i < t.keys.size(); ++i) sum += hash_key(t.keys, i);
    for (const float x : t.values) sum += x > 0;
  }
  return sum;
}
uint64_t read_all(wire::RestoreRequest::Reader m) { return read_slices(m.getTables(), kTables).size(); }
uint64_t read_all(wire::ScanReply::Reader m) {
  return m.getNext() + read_slices(m.getRows(), kTables).size();
}
uint64_t read_all(wire::PullReply::Reader m) {
  uint64_t sum = 0;
  for (const float x : read_rows(m, 0, {1, 2, 3})) sum += x > 0;
  return sum;
}
uint64_t read_all(wire::ErrorReply::Reader m) { return m.getCode() + m.getMessage().size(); }
uint64_t read_all(wire::JoinReply::Reader m) {
  uint64_t sum = read_owner_map(m, 2).owner_of_bucket.size();
  for (const auto table : m.getTables()) sum += read(table).name.size();
  for (const auto owner : m.getOwners())
    sum += read_texts(owner.getEndpoints()).size() + owner.getBootId().size();
  return sum;
}
uint64_t read_all(wire::JoinRequest::Reader m) {
  return read_texts(m.getModel()).size() + read_texts(m.getEndpoints()).size() + m.getHost().size();
}
uint64_t read_all(wire::DoneRequest::Reader m) {
  return read_floats(m.getScores()).size() + read_floats(m.getLabels()).size() +
         read_words(m.getRecords()).size();
}
uint64_t read_all(wire::LeaseReply::Reader m) {
  uint64_t sum = 0;
  for (const auto part : m.getMinibatches()) sum += part.getMinibatch();
  return sum;
}
uint64_t read_all(wire::Hello::Reader m) { return m.getNumberFormat().size() + m.getJob(); }

template <class T>
void mutate(const Message<T>& valid) {
  const auto bytes = valid.words().bytes();
  std::mt19937_64 random(static_cast<uint64_t>(KindOf<T>::kind));
  size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (round % 3 == 0) copy.resize(random() % (copy.size() / 8) * 8);
    for (uint64_t flips = random() % 4; flips > 0 && !copy.empty(); --flips)
      copy[random() % copy.size()] ^= static_cast<std::byte>(1 << random() % 8);
    Words words(copy.size() / 8);
    if (!copy.empty()) std::memcpy(words.data(), copy.data(), copy.size());
    try {
      decoding(KindOf<T>::kind, [&] { return read_all(received<T>(std::move(words)).get()); });
    } catch (const Error& e) {
      ++refused;
      EXPECT_EQ(e.code(), ErrorCode::kBadFrame) << e.what();
    }
  }
  EXPECT_GT(refused, 300) << name(KindOf<T>::kind);
}

TEST(Mutations, OfEveryKindEndInValuesOrBadFrame) {
  const Sample sample;
  const RowsShape shape{1, 2, 3};
  TableSpec table{
      "education", 8, KeyKind::kBytes, 0, {"normal", {{"mean", 0.5}}}, {"adam", {{"beta_1", 0.8}}}, {}};
  const std::vector<std::string> texts{"one", "two"};
  mutate(make_pull(some_origin(), wire::ReadMode::EXACT, true, sample.keys_only));
  mutate(make_push(some_origin(), sample.with_values));
  auto pairs = sample.with_values;
  pairs.push_back({2, sample.ints, 1, sample.more});
  mutate(
      make_pull(some_origin(), wire::ReadMode::LATEST, true, pairs, NumberType::kFloat32, KeysSent::kPacked));
  mutate(make_push(some_origin(), pairs, nullptr, KeysSent::kPacked));
  auto halves = sample.with_values;
  for (TableSlices& slices : halves) slices.number_type = NumberType::kFloat16;
  mutate(make_push(some_origin(), halves));
  mutate(make_restore(sample.with_values, false));
  mutate(make_scan_reply(3, sample.with_values[1]));
  mutate(make_pull_reply(1, {&shape, 1},
                         [](size_t, std::span<float> rows) { std::fill(rows.begin(), rows.end(), 1.0f); }));
  mutate(make_error(ErrorCode::kTimeout, "no answer"));
  mutate(make_message<wire::JoinReply>([&](wire::JoinReply::Builder b) {
    write(b.initTables(1)[0], table);
    b.initOwnerOfBucket(8);
    write_texts(b.initOwners(1)[0].initEndpoints(2), texts);
  }));
  mutate(make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
    write_texts(b.initModel(2), texts);
    write_texts(b.initEndpoints(2), texts);
    b.setHost("host");
  }));
  mutate(make_message<wire::DoneRequest>([&](wire::DoneRequest::Builder b) {
    b.setScores(as_data(sample.values));
    b.setLabels(as_data(sample.values));
  }));
  mutate(make_message<wire::LeaseReply>([](wire::LeaseReply::Builder b) { b.initMinibatches(5); }));
  mutate(make_message<wire::Hello>([](wire::Hello::Builder b) { b.setNumberFormat(kNumberFormat); }));
}

TEST(Messages, ThatAreEmptyHaveNoRoot) { EXPECT_THROW(Message<wire::Hello>(Words(0)), kj::Exception); }

}  // namespace
}  // namespace embers
