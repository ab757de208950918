// Messages from outside: honest ones are taken, crafted ones are refused before anyone copies from them.
#include "schema/messages/received.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "schema/messages/codec.h"
#include "tests/support/crafted.h"
#include "tests/support/expect_error.h"
#include "tests/support/memory_limit.h"

namespace embers {
namespace {

using namespace testing_support;

template <class T>
Words copy_of(const Message<T>& message) {
  Words words(message.words().size());
  std::copy_n(message.words().data(), words.size(), words.data());
  return words;
}

template <class T>
void expect_received(const Message<T>& honest) {
  const Message<T> again = received<T>(copy_of(honest));
  EXPECT_EQ(again.words().size(), honest.words().size());
}

TEST(Received, HonestMessagesAreTaken) {
  const std::vector<std::string> texts{"one", "two", std::string(100'000, 'x')};  // more than one segment
  expect_received(make_message<wire::JoinRequest>([&](wire::JoinRequest::Builder b) {
    write_texts(b.initModel(3), texts);
    write_texts(b.initEndpoints(3), texts);
    b.setHost("host");
  }));
  expect_received(make_message<wire::Empty>());
  expect_received(make_message<wire::StatsReply>([](wire::StatsReply::Builder b) {
    b.initApplied(10'000);
    b.initStalenessCounts(3);
  }));
  expect_received(make_message<wire::NormsRequest>([](wire::NormsRequest::Builder b) {
    b.initCommit().initMinibatches(3);
    b.getCommit().initNorms(2)[1].setParameter("dense.weight");
  }));
  const TableSpec table{
      "education", 8, KeyKind::kBytes, 0, {"normal", {{"mean", 0.5}}}, {"adam", {{"beta_1", 0.8}}}, {}};
  expect_received(make_message<wire::JoinReply>([&](wire::JoinReply::Builder b) {
    auto tables = b.initTables(500);
    for (auto entry : tables) write(entry, table);
    auto buckets = b.initOwnerOfBucket(4096);
    for (unsigned i = 0; i < buckets.size(); ++i) buckets.set(i, i % 7);
    for (auto owner : b.initOwners(200)) write_texts(owner.initEndpoints(3), texts);
  }));
  const Keys ints(std::vector<int64_t>(1000, 7)), strings(std::vector<std::string>(1000, "key"));
  const std::vector<float> values(2000, 1.0f);
  const std::vector<TableSlices> tables{{1, ints, 2, values}, {3, strings, 2, values}};
  expect_received(make_push({}, tables));
  expect_received(make_restore(tables, false));
  expect_received(make_scan_reply(1, tables[1]));
  const std::vector<RowsShape> shapes{{0, 4, 100}, {1, 3, 0}, {2, 1, 1}};
  expect_received(
      make_pull_reply(1, shapes, [](size_t, std::span<float> rows) { std::ranges::fill(rows, 1.f); }));
}

TEST(Received, EveryTypeOfMessageIsOneThatCanBeChecked) {
  const auto check = []<class... Messages>(MessageList<Messages...>) {
    (expect_received(make_message<Messages>()), ...);
  };
  check(AllMessages());
}

TEST(Received, AMillionPointersToOneTextAreRefused) {
  EXPECT_TRUE(succeeds_within(size_t{256} << 20, [] {
    expect_error(ErrorCode::kBadFrame, {"malformed JoinRequest", "limit"}, [] {
      const auto join = received<wire::JoinRequest>(a_million_times_one_text());
      read_texts(join.get().getModel());
    });
  }));
}

TEST(Received, TablesThatShareTheirKeysAreRefused) {
  constexpr size_t kTables = 100, kKeys = 100'000;
  const std::vector<int64_t> ints(kKeys, 123456789);
  std::vector<TableSlices> slices(kTables);
  for (TableId t = 0; t < kTables; ++t) slices[t].table = t;
  slices.back().keys = KeysView{KeyKind::kInt64, ints, {}, {}};
  Crafted crafted(copy_of(make_pull({}, wire::ReadMode::LATEST, true, slices)));
  const size_t keys = crafted.find(123456789);
  // The last entry's pointer to its keys is the only one to them: all entries get one.
  size_t last = 0;
  for (size_t i = 2; i < keys; ++i)
    if (crafted[i] >> 32 == (kKeys * 8 << 3 | static_cast<uint64_t>(capnp::ElementSize::BYTE))) last = i;
  ASSERT_NE(last, 0);
  using Entry = wire::TableKeys::_capnpPrivate;
  const size_t words = Entry::dataWordSize + Entry::pointerCount;
  for (size_t t = 1; t < kTables; ++t)
    crafted.point(last - t * words, keys, capnp::ElementSize::BYTE, kKeys * 8);
  expect_error(ErrorCode::kBadFrame, {"malformed PullRequest", "limit"},
               [&] { received<wire::PullRequest>(crafted.take()); });
}

// Cap'n Proto reads a list of bytes as structs, too: each byte of the message would become a struct of ours.
TEST(Received, AListOfBytesInThePlaceOfStructsIsRefused) {
  Crafted crafted = Crafted::make<wire::CommitRequest>(
      [](wire::CommitRequest::Builder b) { b.initMinibatches(1000)[0].setMinibatch(77); });
  const size_t part = crafted.find(77);
  size_t pointer = part - 2;  // before the list's tag
  while (crafted[pointer] == 0) --pointer;
  for (const auto element :
       {capnp::ElementSize::BYTE, capnp::ElementSize::TWO_BYTES, capnp::ElementSize::VOID,
        capnp::ElementSize::EIGHT_BYTES, capnp::ElementSize::POINTER}) {
    crafted.point(pointer, part, element, 1000);
    expect_error(ErrorCode::kBadFrame, {"malformed CommitRequest", "minibatches"},
                 [&] { received<wire::CommitRequest>(crafted.copy()); });
  }
}

TEST(Received, AListOfStructsWithoutWordsIsRefused) {
  Crafted crafted =
      Crafted::make<wire::LeaseReply>([](wire::LeaseReply::Builder b) { b.initMinibatches(1); });
  size_t tag = crafted.size() - 3;  // of a list with one element of two words
  ASSERT_EQ(crafted[tag], uint64_t{2} << 32 | 1 << 2);
  crafted[tag] = (uint64_t{1} << 30) - 4;  // 2^28 elements of no words
  expect_error(ErrorCode::kBadFrame, {"malformed LeaseReply", "limit"}, [&] {
    const auto lease = received<wire::LeaseReply>(crafted.take());
    std::vector<uint64_t> copies;
    for (const auto part : lease.get().getMinibatches()) copies.push_back(part.getMinibatch());
  });
}

TEST(Received, StructsOfHalfTheirWordsOrLessAreRefused) {
  Crafted crafted = Crafted::make<wire::JoinReply>([](wire::JoinReply::Builder b) { b.initTables(1000); });
  // 8 words each: the tag says how many of them are data and pointers.
  const size_t tag = crafted.find(uint64_t{5} << 48 | uint64_t{3} << 32 | 1000 << 2);
  crafted[tag] = uint64_t{1} << 32 | 8000 << 2;  // 8000 structs of one word
  expect_error(ErrorCode::kBadFrame, {"malformed JoinReply", "'tables' have 1 words, but 8"},
               [&] { received<wire::JoinReply>(crafted.copy()); });
  crafted[tag] = uint64_t{5} << 48 | uint64_t{2} << 32 | 1000 << 2;  // of an older peer
  EXPECT_EQ(received<wire::JoinReply>(crafted.copy()).get().getTables().size(), 1000);
}

TEST(Received, WordsThatAreNoMessageAreRefused) {
  expect_error(ErrorCode::kBadFrame, {"malformed Hello"}, [] { received<wire::Hello>(Words(0)); });
  Words noise(100);
  std::memset(static_cast<void*>(noise.data()), 0xff, 800);
  expect_error(ErrorCode::kBadFrame, {"malformed Hello"}, [&] { received<wire::Hello>(std::move(noise)); });
}

}  // namespace
}  // namespace embers
