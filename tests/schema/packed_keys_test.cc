// int64 keys in fewer bytes: what is packed is unpacked, in messages, too; what is malformed is kBadFrame.
#include "schema/messages/packed_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "schema/messages/codec.h"
#include "schema/messages/received.h"
#include "tests/support/expect_error.h"

namespace embers {
namespace {

using testing_support::expect_error;

void expect_unpacked_as_packed(const std::vector<int64_t>& keys, uint32_t bytes_per_key) {
  const KeyPacking packing = KeyPacking::of(keys);
  EXPECT_EQ(packing.bytes_per_key, bytes_per_key);
  // On the heap and exactly as large as need be, so that sanitizers see who reads or writes past the end.
  std::vector<std::byte> packed(keys.size() * packing.bytes_per_key, std::byte{0xAA});
  pack(packing, keys, packed.data());
  std::vector<int64_t> unpacked(keys.size());
  unpack(packing, packed.data(), unpacked);
  EXPECT_EQ(unpacked, keys);
}

TEST(PackedKeys, TakeWhatTheRangeOfTheirListNeeds) {
  expect_unpacked_as_packed({7}, 1);
  expect_unpacked_as_packed({INT64_MIN, INT64_MIN + 255}, 1);
  expect_unpacked_as_packed({INT64_MAX - 256, INT64_MAX}, 2);
  expect_unpacked_as_packed({99'999, 0, 65'536}, 3);
  expect_unpacked_as_packed({-1, 0, 1 << 24}, 4);
  expect_unpacked_as_packed({INT64_MAX, INT64_MIN, 0}, 8);
  std::mt19937_64 random(1);
  for (uint32_t bytes = 1; bytes <= 8; ++bytes)
    for (const size_t size : {1, 2, 3, 7, 8, 9, 100, 1001}) {
      const uint64_t least = random(), most = UINT64_MAX >> (8 * (8 - bytes));
      std::vector<int64_t> keys(size);
      for (int64_t& key : keys) key = static_cast<int64_t>(least + random() % most);
      keys.front() = static_cast<int64_t>(least);
      keys.push_back(static_cast<int64_t>(least + most));
      // A range that wraps around zero of uint64 is none of int64: then all eight bytes are needed.
      const auto [low, high] = std::ranges::minmax(keys);
      if (static_cast<uint64_t>(high) - static_cast<uint64_t>(low) == most)
        expect_unpacked_as_packed(keys, bytes);
    }
}

struct KeySample {
  std::vector<int64_t> users{100'000, 3, 99'999, 40'000}, all{INT64_MIN, INT64_MAX};
  Keys words{std::vector<std::string>{"a", "", "ccc"}};
  std::vector<float> values = std::vector<float>(64, 0.5f);

  // User embeddings and biases, which have the same keys; words twice; keys that cannot be packed; none.
  std::vector<TableSlices> tables(uint32_t width) const {
    const auto slices = [&](TableId table, KeysView keys) {
      return TableSlices{table, keys, width, std::span(values).first(keys.size() * width)};
    };
    const KeysView ints{KeyKind::kInt64, users, {}, {}}, wide{KeyKind::kInt64, all, {}, {}};
    return {slices(0, ints),  slices(1, wide), slices(2, words), slices(3, ints),
            slices(4, words), slices(5, {}),   slices(6, ints)};
  }
};

template <class T>
void expect_read_back(const Message<T>& message, const std::vector<TableSlices>& sent) {
  UnpackedKeys unpacked;
  const auto bytes = message.words().bytes();
  Words words(message.words().size());
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const auto arrived = received<T>(std::move(words));
  const auto tables = read_slices(arrived.get().getTables(), 7, false, &unpacked);
  ASSERT_EQ(tables.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(tables[i].table, sent[i].table);
    EXPECT_EQ(Keys(tables[i].keys), Keys(sent[i].keys)) << "table " << i;
    EXPECT_TRUE(std::ranges::equal(tables[i].values, sent[i].values));
  }
}

TEST(PackedKeys, OfPullsAndPushesReadBack) {
  const KeySample sample;
  expect_read_back(
      make_pull({}, wire::ReadMode::LATEST, true, sample.tables(0), NumberType::kFloat32, KeysSent::kPacked),
      sample.tables(0));
  expect_read_back(make_push({}, sample.tables(2), nullptr, KeysSent::kPacked), sample.tables(2));
}

TEST(PackedKeys, OfTwoTablesAreSentOnce) {
  std::vector<int64_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 97);  // 3 bytes each
  const KeysView keys{KeyKind::kInt64, ids, {}, {}};
  const std::vector<TableSlices> tables{{0, keys, 0, {}}, {1, keys, 0, {}}};
  const auto words = [&](KeysSent sent) {
    return make_pull({}, wire::ReadMode::LATEST, true, tables, NumberType::kFloat32, sent).words().size();
  };
  EXPECT_EQ(words(KeysSent::kAsTheyAre) - words(KeysSent::kPacked), (2 * 8000 - 3000) / 8);
}

TEST(PackedKeys, OfListsThatOnlyBeginAlikeAreTheirOwn) {
  std::vector<int64_t> ids(100);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<int64_t> others = ids;
  others.back() = -5;
  const KeysView keys{KeyKind::kInt64, ids, {}, {}}, other{KeyKind::kInt64, others, {}, {}};
  const std::vector<TableSlices> tables{
      {0, keys, 0, {}}, {1, other, 0, {}}, {2, other, 0, {}}, {3, keys, 0, {}}};
  const auto pull =
      make_pull({}, wire::ReadMode::LATEST, true, tables, NumberType::kFloat32, KeysSent::kPacked);
  expect_read_back(pull, tables);
  EXPECT_EQ(pull.get().getTables()[1].getKeysOf(), 0u);
  EXPECT_EQ(pull.get().getTables()[3].getKeysOf(), 1u);
}

TEST(PackedKeys, ThatNobodyExpectsAreRefused) {
  const KeySample sample;
  const auto push = make_push({}, sample.tables(1), nullptr, KeysSent::kPacked);
  expect_error(ErrorCode::kBadFrame, {"table 0", "packed"}, [&] { read_slices(push.get().getTables(), 7); });
}

template <class Fill>
void expect_bad(const std::string& part, Fill&& fill) {
  const auto m = make_message<wire::PushRequest>([&](wire::PushRequest::Builder b) {
    auto tables = b.initTables(3);
    for (unsigned i = 0; i < 3; ++i) tables[i].setTable(i);
    tables[0].setCount(1);
    tables[0].initInts(8);
    tables[1].setCount(1);
    tables[1].setKeysOf(1);
    fill(tables[2]);
  });
  UnpackedKeys unpacked;
  expect_error(ErrorCode::kBadFrame, {"table 2", part},
               [&] { read_slices(m.get().getTables(), 3, false, &unpacked); });
}

TEST(PackedKeys, ThatAreMalformedAreRefused) {
  using Entry = wire::TableKeys::Builder;
  const auto packed = [](Entry e, uint32_t count, uint8_t key_bytes, unsigned bytes) {
    e.setCount(count);
    e.setKeyBytes(key_bytes);
    e.initPacked(bytes);
  };
  expect_bad("2 keys of 3 bytes were announced", [&](Entry e) { packed(e, 2, 3, 5); });
  expect_bad("0 bytes were announced", [&](Entry e) { packed(e, 1, 0, 1); });
  expect_bad("9 bytes were announced", [&](Entry e) { packed(e, 1, 9, 9); });
  expect_bad("4294967295 keys", [&](Entry e) { packed(e, UINT32_MAX, 1, 8); });
  expect_bad("were announced", [&](Entry e) { packed(e, 1, 4, 4), e.initInts(8); });
  expect_bad("entry 2", [](Entry e) { e.setCount(1), e.setKeysOf(3); });
  expect_bad("entry 4294967294", [](Entry e) { e.setCount(1), e.setKeysOf(UINT32_MAX); });
  expect_bad("entry 1", [](Entry e) { e.setCount(1), e.setKeysOf(2); });
  expect_bad("2 keys of table", [](Entry e) { e.setCount(2), e.setKeysOf(1); });
  expect_bad("entry 0", [](Entry e) { e.setCount(1), e.setKeysOf(1), e.initInts(8); });
}

}  // namespace
}  // namespace embers
